-- The machine of the token bucket with continuous refill. Configuration: numerator, denominator
-- (the rate in tokens per microsecond, a reduced fraction), burst. A token is `denominator` parts,
-- and each microsecond brings `numerator` parts; burst * denominator < 2^53.
-- State: deficit (parts missing from a full bucket), last (us, when the latest was admitted).
machines.T1 = {config = 3}

function machines.T1.new(numerator, denominator, burst)
  local function settle(deficit, last)
    if not last then return 0, now end
    local at = max(now, last)
    -- A refill past 2^53 may round, but stays above every deficit.
    return max(0, deficit - (at - last) * numerator), at
  end
  local function fresh_at(deficit, last)
    return last + ceil(deficit / numerator)
  end
  local full = burst * denominator
  local function kept_until(deficit, last)
    if deficit > full then return fresh_at(deficit, last) end
    return next_stretch_ends(last, (full - full % numerator) / numerator + 1)
  end
  return settle, fresh_at, kept_until
end

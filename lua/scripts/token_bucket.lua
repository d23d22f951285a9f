-- The machine of the token bucket with continuous refill. Configuration: numerator, denominator
-- (the rate in tokens per microsecond, a reduced fraction), burst. A token is `denominator` parts,
-- and each microsecond brings `numerator` parts; burst * denominator < 2^53.
-- State: deficit (parts missing from a full bucket), last (us, when the latest was admitted).
machines.T1 = {config = 3, state = '^(%d+) (%d+)$', format = '%.0f %.0f'}

function machines.T1.new(numerator, denominator, burst)
  local function settle(deficit, last)
    if not last then return 0, now end
    local at = max(now, last)
    -- A refill past 2^53 may round, but stays above every deficit.
    return max(0, deficit - (at - last) * numerator), at
  end
  local function charge(cost, deficit, last)
    if cost <= burst and cost * denominator <= burst * denominator - deficit then
      return deficit + cost * denominator, last
    end
  end
  local function fresh_at(deficit, last)
    return last + ceil(deficit / numerator)
  end
  return settle, charge, fresh_at
end

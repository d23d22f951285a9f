-- The machine of the token bucket with interval refill. Configuration: amount (tokens at the end
-- of each interval), interval (us), burst.
-- State: deficit (tokens missing from a full bucket), anchor (us, where the running interval began).
-- A full bucket counts its intervals anew from its next use, as a forgotten one does.
machines.I1 = {config = 3}

function machines.I1.new(amount, interval, burst)
  local function settle(deficit, anchor)
    if not anchor then return 0, now end
    local intervals = floor(max(0, now - anchor) / interval)
    -- A refill past 2^53 may round, but stays above every deficit.
    local left = deficit - intervals * amount
    if left <= 0 then return 0, max(now, anchor) end
    return left, anchor + intervals * interval
  end
  local function fresh_at(deficit, anchor)
    return anchor + ceil(deficit / amount) * interval
  end
  local function kept_until(deficit, anchor)
    if deficit > burst then return fresh_at(deficit, anchor) end
    return next_stretch_ends(anchor, ceil(burst / amount) * interval)
  end
  return settle, fresh_at, kept_until
end

-- The machine of the token bucket with interval refill. Configuration: amount (tokens at the end
-- of each interval), interval (us), burst.
-- State: deficit (tokens missing from a full bucket), anchor (us, where the running interval began).
-- A full bucket counts its intervals anew from its next use, as a forgotten one does.
machines.I1 = {config = 3, state = '^(%d+) (%d+)$', format = '%.0f %.0f'}

function machines.I1.new(amount, interval, burst)
  local function settle(deficit, anchor)
    if not anchor then return 0, now end
    local intervals = floor(max(0, now - anchor) / interval)
    -- A refill past 2^53 may round, but stays above every deficit.
    local left = deficit - intervals * amount
    if left <= 0 then return 0, max(now, anchor) end
    return left, anchor + intervals * interval
  end
  local function charge(cost, deficit, anchor)
    if cost <= burst - deficit then return deficit + cost, anchor end
  end
  local function fresh_at(deficit, anchor)
    return anchor + ceil(deficit / amount) * interval
  end
  return settle, charge, fresh_at
end

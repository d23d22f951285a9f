-- The machine of the sliding window counter. Configuration: limit, window (us).
-- State: previous, current (admitted in the window before the latest request's, and in that one),
-- last (us, when the latest request was admitted). Windows are aligned to the epoch.
machines.S1 = {config = 2}

function machines.S1.new(_, window)
  local function settle(previous, current, last)
    if not last then return 0, 0, now end
    local at = max(now, last)
    local windows = floor(at / window) - floor(last / window)
    if windows == 0 then return previous, current, at end
    if windows == 1 then return current, 0, at end
    return 0, 0, at
  end

  -- What counts: current + ceil(previous * left / window), the latter in two steps, each exact below
  -- 2^53. With previous = a * split + b it is split * (a * left) / window + (b * left) / window.
  -- a * left < 2^53 and split * window <= 2^52 are what the configuration was checked for.
  local split = floor(4503599627370496 / window)
  local function estimate(previous, current, last)
    local left = window - (last - floor(last / window) * window)
    local a = floor(previous / split)
    local b = previous - a * split
    local whole = floor(a * left / window)
    local rest = a * left - whole * window
    return whole * split + ceil((split * rest + b * left) / window) + current
  end

  local function fresh_at(_, _, last)
    return (floor(last / window) + 2) * window
  end
  return settle, fresh_at, fresh_at, estimate
end

-- The machine of the fixed window. Configuration: limit, window (us). State: opened (us), used.
-- The first request that is admitted outside of a window opens one, [opened, opened + window).
local machine = {tag = 'F1', config = 2, state = '^(%d+) (%d+)$', format = '%.0f %.0f'}

function machine.new(limit, window)
  -- The state as it counts now. A time before the opening counts as the opening.
  local function settle(opened, used)
    if opened and now < opened + window then return opened, used end
    return now, 0
  end
  local function charge(cost, opened, used)
    if cost <= limit - used then return opened, used + cost end
  end
  local function fresh_at(opened)
    return opened + window
  end
  return settle, charge, fresh_at
end

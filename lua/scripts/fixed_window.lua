-- The machine of the fixed window. Configuration: limit, window (us). State: opened (us), used.
-- The first request that is admitted outside of a window opens one, [opened, opened + window). A
-- window with nothing used, which a refund leaves, is not open.
machines.F1 = {config = 2}

function machines.F1.new(_, window)
  -- The state as it counts now. A time before the opening counts as the opening.
  local function settle(opened, used)
    if not opened then return now, 0 end
    if used > 0 and now < opened + window then return opened, used end
    return max(now, opened), 0
  end
  local function fresh_at(opened)
    return opened + window
  end
  return settle, fresh_at, fresh_at
end

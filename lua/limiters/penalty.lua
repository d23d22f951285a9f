-- Charging what may not fit, up to twice the capacity.

-- What may be added to a part.
local function room(part)
  return max(0, math.min(2 * part.capacity, floor(part.most / part.unit)) - used(part))
end

-- Charges each part what it is asked for; how much was charged, by the part where that is most.
local function penalize(amount)
  local done = 0
  for i, part in ipairs(parts) do
    if not part.is_log then
      local units = math.min(cost_of(i, amount), room(part))
      counter_add(part, units)
      done = max(done, units)
    end
  end
  if not logs[1] then return done end
  -- One entry for all logs. The one with the longest window decides, so that their number is bounded.
  local longest = logs[1]
  for _, log in ipairs(logs) do
    if log.window > longest.window or log.window == longest.window and room(log) > room(longest) then
      longest = log
    end
  end
  local cost = math.min(cost_of_logs(amount), room(longest))
  if cost > 0 then add_entry(logs, cost) end
  return max(done, cost)
end

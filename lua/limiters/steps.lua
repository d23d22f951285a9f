-- The lowest levels of a bucket since its reservations were made, as a staircase: for a reservation the level is the sum
-- of the steps up to it. What is charged later adds nothing to that; what empties the bucket, or is given back, takes from
-- the latest step first. A step is 24 bytes: the number of the first reservation that it counts for, how many are open of
-- those from this one to the next step (of a step but the last at least one), and its height.

-- @take_steps
-- Takes up to `amount` from the first `count` steps, the latest first, once the reservation that the last one of these counts
-- for is closed, if it is: the steps, how many of the first are left and how many are open of the last one of these, and how
-- much was not taken.
local function take_steps(steps, count, amount, closed)
  local at, moved, first, open, height = count, 0, nil, nil, nil
  while at > 0 do
    first, open, height = struct.unpack('<ddd', steps, 24 * at - 23)
    if closed and open > 0 then open = open - 1 end
    closed = false
    if height > amount then break end
    -- What is left is as low as the step before.
    at, moved, amount = at - 1, moved + open, amount - height
  end
  local behind = string.sub(steps, 24 * count + 1)
  if at == 0 then return behind, 0, 0, amount end
  open = open + moved
  local step = struct.pack('<ddd', first, open, height - amount)
  return string.sub(steps, 1, 24 * at - 24) .. step .. behind, at, open, 0
end

-- @merge_steps
-- Of one too many takes away the one between two others by which the fewest come to count as lower than they are.
local function merge_steps(steps)
  local count, least = #steps / 24, nil
  local all = {struct.unpack('<' .. string.rep('d', 3 * count), steps)}
  for at = 4, 3 * count - 5, 3 do
    local together = all[at - 2] + all[at + 1]
    if not least or together < least then least, count = together, at end
  end
  local before, after = string.sub(steps, 1, 8 * count - 32), string.sub(steps, 8 * count + 41)
  return before .. struct.pack('<dddddd', all[count - 3], least, all[count - 1],
    all[count + 3], all[count + 4], all[count + 2] + all[count + 5]) .. after
end

-- @add_step
-- Adds a step of this height for the reservation of this number.
local function add_step(steps, number, height)
  if #steps > 0 then
    local _, open, last = struct.unpack('<ddd', steps, #steps - 23)
    if open == 0 then steps, height = string.sub(steps, 1, -25), height + last end
  end
  steps = steps .. struct.pack('<ddd', number, 1, height)
  return #steps > 24 * $EXACT_RESERVATIONS and merge_steps(steps) or steps
end

-- @settle_step
-- Closes the reservation of this number and takes up to `amount` for it: the steps, how much was not taken, and whether any
-- step counts for it.
local function settle_step(steps, number, amount)
  local count, most = 0, #steps / 24
  while count < most do
    local at = math.ceil((count + most) / 2)
    if struct.unpack('<d', steps, 24 * at - 23) <= number then count = at else most = at - 1 end
  end
  if count == 0 then return steps, amount, false end
  local at, open
  steps, at, open, amount = take_steps(steps, count, amount, true)
  if at > 0 and open == 0 and 24 * at < #steps then   -- nobody needs it: it is as well the next one's
    local _, _, height, first, others, next_height = struct.unpack('<dddddd', steps, 24 * at - 23)
    steps = string.sub(steps, 1, 24 * at - 24) .. struct.pack('<ddd', first, others, height + next_height)
      .. string.sub(steps, 24 * at + 25)
  end
  return steps, amount, true
end

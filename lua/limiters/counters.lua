-- A part of a limit that counts by one of the `algorithms` has in `state` its numbers, settled.

-- The units that are used of a part.
local function counter_used(part)
  return part.counted_units(unpack(part.state))
end

local function counter_add(part, units)
  part.state[part.counted] = part.state[part.counted] + units * part.unit
end

-- Gives back as far as there is: of a sliding window first from its running window, of places first the older ones, which
-- would return before the others.
local function counter_give_back(part, units)
  local state, at = part.state, part.counted
  if part.previous then
    local other = part.previous
    if part.lease then at, other = other, at end
    local rest = max(0, units - state[at])
    state[at], state[other] = max(0, state[at] - units), max(0, state[other] - rest)
  elseif units >= counter_used(part) then   -- compared in units: their parts can pass 2^53
    state[at] = 0
  else
    state[at] = state[at] - units * part.unit
  end
end

-- Until when the record of a counter by itself is kept; where nothing is used, until no earlier time is held back any
-- more.
local function counter_kept_until(part)
  local state = part.state
  if state[part.counted] > 0 then return part.kept_until(unpack(state)) end
  if part.warmth then return part.fresh_at(unpack(state)) end
  if part.previous and state[part.previous] > 0 then return part.fresh_at(unpack(state)) - part.window end
  return state[part.latest]
end

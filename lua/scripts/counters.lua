-- What only the general scripts need of the machines whose state is a few integers. A part of a limit
-- with such a machine has in `state` its numbers, settled, and in `counted` which of them a charge adds
-- to, `unit` for each unit of cost.
local SPAN = 2251799813685248   -- the longest time that is remembered, 2^51 us

-- Of each: how many numbers a state has, which of them is counted, and which is the latest time that
-- counts; of the configuration, which is the capacity, the length of a window, the unit; and `most`,
-- the most that can be counted with every step exact and every time in range.
local counters = {
  F1 = {size = 2, counted = 2, latest = 1, capacity = 1, window = 2},
  S1 = {size = 3, counted = 2, latest = 3, capacity = 1, window = 2},
  T1 = {size = 2, counted = 1, latest = 2, capacity = 3, unit = 2},
  I1 = {size = 2, counted = 1, latest = 2, capacity = 3, window = 2},
}
function counters.F1.most() return EXACT end
function counters.S1.most(_, window)
  local split = floor(4503599627370496 / window)
  return math.min(EXACT, floor(EXACT / window) * split + split - 1)
end
function counters.T1.most(numerator) return math.min(EXACT, SPAN * numerator) end
function counters.I1.most(amount, interval) return math.min(EXACT, floor(SPAN / interval) * amount) end

-- A leaky bucket counts as a token bucket does.
counters.Q1, machines.Q1 = counters.T1, machines.T1

local function new_counter(tag, config)
  local kind = counters[tag]
  local part = {counted = kind.counted, latest = kind.latest, size = kind.size}
  part.capacity, part.window = config[kind.capacity], kind.window and config[kind.window]
  part.unit, part.most = kind.unit and config[kind.unit] or 1, kind.most(unpack(config))
  part.settle, part.fresh_at, part.kept_until, part.estimate = machines[tag].new(unpack(config))
  return part
end

-- The units that are used; what remains is the capacity less them.
local function counter_used(part)
  if part.estimate then return part.estimate(unpack(part.state)) end
  return ceil(part.state[part.counted] / part.unit)
end

local function counter_add(part, units)
  part.state[part.counted] = part.state[part.counted] + units * part.unit
end

-- Gives back as far as there is: of a sliding window first from its running window.
local function counter_give_back(part, units)
  local state, at = part.state, part.counted
  if part.estimate then
    local rest = max(0, units - state[2])
    state[2], state[1] = max(0, state[2] - units), max(0, state[1] - rest)
  elseif units >= counter_used(part) then   -- compared in units: their parts can pass 2^53
    state[at] = 0
  else
    state[at] = state[at] - units * part.unit
  end
end

-- When the state is as a fresh one; where nothing is used, when no earlier time is held back any more.
local function counter_fresh_at(part)
  local state = part.state
  if state[part.counted] > 0 then return part.fresh_at(unpack(state)) end
  if part.estimate and state[1] > 0 then return part.fresh_at(unpack(state)) - part.window end
  return state[part.latest]
end

-- Until when the record of a counter by itself is kept: the same for all states within a stretch of time, so that
-- the plain scripts set the expiry anew but once in each.
local function counter_kept_until(part)
  if part.state[part.counted] > 0 then return part.kept_until(unpack(part.state)) end
  return counter_fresh_at(part)
end

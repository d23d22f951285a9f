-- A record that was written under another limit than the one that is asked for now. Its parts count
-- on, so that a limit can be changed while it is in use: right after, no more remains than the new
-- capacity less what was used. A log whose window became shorter is exact under its new window.
--
-- Each new part takes over: the state of an old part that is the same; else that of the old part in its
-- place, if that is of the same kind; else it is fresh, charged with the most that any old part had used.
-- Logs take over the entries. A block stays; requests and reservations are forgotten.

local TIME_MAX = $LATEST_TIME   -- the latest accepted time (us)

-- ceil(a * b / c) for a below c, exact also where a * b passes 2^53: bit by bit of b.
local function mul_div_ceil(a, b, c)
  local quotient, rest, weight = 0, 0, $TWO_52   -- 2^52
  local function add(n)   -- n below c
    if rest >= c - n then quotient, rest = quotient + 1, rest - (c - n) else rest = rest + n end
  end
  while weight >= 1 do
    quotient = 2 * quotient
    add(rest)
    if b >= weight then
      b = b - weight
      add(a)
    end
    weight = weight / 2
  end
  return rest > 0 and quotient + 1 or quotient
end

-- A window or interval ends when it would have ended.
local function shift(time, old, new)
  return math.min(TIME_MAX, max(0, time + old.window - new.window))
end

-- A fresh state, charged with as many of the units as it can count.
local function charge_fresh(part, units)
  part.state = {part.settle()}
  counter_add(part, math.min(units, floor(part.most / part.unit)))
end

-- The state of an old part of the same kind.
local function take_over(old, new)
  local state = old.state
  local is_aligned = old.like == new.like and not (old.previous and old.window ~= new.window)
  if not is_aligned then return charge_fresh(new, used(old)) end
  local count = state[old.counted]
  if count > 0 and not old.previous then
    if old.unit ~= new.unit then
      local whole = floor(count / old.unit)
      count = whole * new.unit + mul_div_ceil(count - whole * old.unit, new.unit, old.unit)
    end
    state[old.counted] = math.min(count, new.most)
    if old.window then state[old.latest] = shift(state[old.latest], old, new) end
  end
  new.state = state
end

-- From the old logs, which share their entries; without any, the most that was used is one entry, which is so small that
-- all sums of entries are exact.
local function convert_logs(old_logs, most)
  local longest = old_logs[1]
  for _, log in ipairs(old_logs) do
    if log.used > longest.used then longest = log end
  end
  for _, log in ipairs(logs) do
    if longest and not log.used then
      log.used = longest.used
      log_settle(log)
    elseif not longest then
      log.used = 0
    end
  end
  if logs[1] and not longest and most > 0 then add_entry(logs, math.min(most, logs[1].most)) end
end

-- Gives the parts of the limit in ARGV their states, from those of the record, which are settled.
function convert(old)
  local most, taken = 0, {}
  for _, part in ipairs(old) do most = max(most, used(part)) end
  for _, part in ipairs(parts) do
    for i = 1, #old do
      if not taken[i] and not part.from and old[i].name == part.name then
        taken[i], part.from = true, old[i]
        part.state, part.used = old[i].state, old[i].used
      end
    end
  end
  for i, part in ipairs(parts) do
    if not part.is_log and not part.from then
      if old[i] and not taken[i] and old[i].tag == part.tag then
        take_over(old[i], part)
      else
        charge_fresh(part, most)
      end
    end
  end
  convert_logs(logs_of(old), most)
  requests, kept, next_one, known, generation = {}, 0, 0, nil, nil
end

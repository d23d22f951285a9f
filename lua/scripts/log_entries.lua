-- The entries of a record with one or more sliding logs: a list whose first element is the head and
-- whose others are `time` or `time:cost`, shared by all the logs, since each admission charges all of
-- them alike. A log, as a part of a limit, has `used`, the total cost of the entries that count for it:
-- those behind the first `skip`, which have expired for it. When the record is written, those that have
-- expired for every log go.
--
-- Entries are read in pieces, where they are needed.
local FIRST_PIECE, NEXT_PIECE = 8, 1000
local times, costs = {}, {}     -- the entries read so far, by their place in the list
local entries = 0               -- how many are stored; without end while that is not known
local piece_size = FIRST_PIECE
local broken = false            -- whether an entry could not be read; then nothing is written
local last, at = 0, now         -- when the latest was admitted; the time that counts for the logs
local added = {}                -- the costs of new entries, all at `at`
local removed, lowered = 0, nil -- how many of the newest entries go, and what the next one becomes
local cut = {first = 0, removed = 0}   -- the same in their middle, from the `first` on

local function entry_text(time, cost)
  return format(cost == 1 and '%.0f' or '%.0f:%.0f', time, cost)
end

local function read_entries(first, final)
  local piece = redis.call('LRANGE', key, format('%.0f', first), format('%.0f', final))
  for i = 1, #piece do
    local time, cost = match(piece[i], '^(%d+):?(%d*)$')
    time, cost = tonumber(time), tonumber(cost) or 1
    broken = broken or not time or time > EXACT or cost > EXACT
    local place = first + i - 1
    times[place], costs[place] = times[place] or time or 0, costs[place] or cost
  end
  if first + #piece <= final then entries = math.min(entries, first + #piece - 1) end
end

-- The time of the entry at this place, if there is one.
local function entry_time(place)
  if not times[place] and place <= entries then
    read_entries(place, math.min(entries, place + piece_size - 1))
    piece_size = math.min(4 * piece_size, NEXT_PIECE)
  end
  return times[place]
end

local function log_settle(log)
  if log.skip > 0 and not entry_time(log.skip) then broken = true end
  local place = log.skip + 1
  while entry_time(place) and at >= times[place] + log.window do
    log.used, log.skip, place = log.used - costs[place], place, place + 1
  end
  broken = broken or log.used < 0
end

-- When the smallest prefix of the entries that count for the log, new ones among them, has expired that
-- makes room for `cost`; 0 where it fits now or never can.
local function log_freed_at(log, cost)
  if cost > log.capacity or cost <= max(0, log.capacity - log.used) then return 0 end
  local missing, place = log.used - (log.capacity - cost), log.skip
  repeat
    place = place + 1
    if not entry_time(place) then return at + log.window end   -- the rest is new
    missing = missing - costs[place]
  until missing <= 0
  return times[place] + log.window
end

local function add_entry(logs, cost)
  for _, log in ipairs(logs) do log.used = log.used + cost end
  added[#added + 1], last = cost, at
end

local function smallest_skip(logs)
  local least = logs[1].skip
  for _, log in ipairs(logs) do least = math.min(least, log.skip) end
  return least
end

-- Takes `cost` out of the newest entries, as far as they count for any log.
local function take_back(logs, cost)
  if added[1] then   -- what a conversion made is the only entry
    local part = math.min(cost, added[1])
    for _, log in ipairs(logs) do log.used = log.used - part end
    added = part < added[1] and {added[1] - part} or {}
    return
  end
  local oldest = smallest_skip(logs) + 1
  if entries > 0 then entries = redis.call('LLEN', key) - 1 end
  local place = entries
  while cost > 0 and place >= oldest and not broken do
    if not times[place] then read_entries(max(oldest, place - NEXT_PIECE + 1), place) end
    local part = math.min(cost, costs[place])
    for _, log in ipairs(logs) do
      if place > log.skip then log.used = log.used - part end
    end
    cost, costs[place] = cost - part, costs[place] - part
    if costs[place] > 0 then
      lowered = entry_text(times[place], costs[place])
    else
      removed, place = removed + 1, place - 1
    end
  end
  for _, log in ipairs(logs) do log.skip = math.min(log.skip, place) end
end

-- Takes up to `cost` out of the entries of one time, as far as they count for any log; how much that was.
-- What goes keeps its place until it is written.
local function cut_entries(logs, time, cost)
  entries = redis.call('LLEN', key) - 1
  local place, behind = smallest_skip(logs) + 1, entries + 1
  while place < behind do
    local middle = floor((place + behind) / 2)
    if not times[middle] then read_entries(middle, middle) end
    if times[middle] < time then place = middle + 1 else behind = middle end
  end
  cut.first = place
  local left = cost
  while left > 0 and entry_time(place) == time do
    local part = math.min(left, costs[place])
    for _, log in ipairs(logs) do
      if place > log.skip then log.used = log.used - part end
    end
    left, costs[place] = left - part, costs[place] - part
    if costs[place] > 0 then
      cut.lowered = entry_text(time, costs[place])
    else
      cut.removed, place = cut.removed + 1, place + 1
    end
  end
  return cost - left
end

-- How many of the first `count` entries are left.
local function uncut(count)
  return count - max(0, math.min(count - cut.first + 1, cut.removed))
end

local function store_cut()
  local behind = cut.first + cut.removed
  for place = cut.first, behind - 1 do redis.call('LSET', key, format('%.0f', place), '') end
  if cut.lowered then redis.call('LSET', key, format('%.0f', behind), cut.lowered) end
  if cut.removed > 0 then redis.call('LREM', key, format('%.0f', cut.removed), '') end
end

-- Until when a log by itself is kept: the same for all admissions within a window, so that the plain script sets the expiry
-- anew but once in each.
local function log_kept_until(log)
  return log.used > 0 and next_stretch_ends(last, log.window) or last
end

-- Writes the head and the entries. `is_list`: whether they are stored already, else nothing is.
local function store_entries(head, drop, is_list, ttl)
  if is_list then
    store_cut()
    -- The last expired entry stays in the head's place, and is overwritten by it.
    if drop + removed > 0 then
      redis.call('LTRIM', key, format('%.0f', drop), format('%.0f', -1 - removed))
    end
    redis.call('LSET', key, '0', packed(head))
    if lowered then redis.call('LSET', key, '-1', lowered) end
  else
    redis.call('DEL', key)
    redis.call('RPUSH', key, packed(head))
  end
  for i = 1, #added do added[i] = entry_text(at, added[i]) end
  for i = 1, #added, NEXT_PIECE do
    redis.call('RPUSH', key, unpack(added, i, math.min(i + NEXT_PIECE - 1, #added)))
  end
  redis.call('PEXPIRE', key, ttl)
end

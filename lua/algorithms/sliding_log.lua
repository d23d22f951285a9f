-- The sliding log. A list, whose first element is the head: the configuration (limit, window in us), the total cost of
-- the entries, and when the latest request was admitted (us). The others are the entries, `time` or `time:cost`, the
-- oldest first. An entry at t counts for every time in [t, t + window).

-- @keep
-- The same for all admissions within a window, so that the expiry is set anew but once in each.
till = last - last % window + 2 * window
if till > $EXACT then till = $EXACT end

-- @sliding_log_acquire
$about
--
-- ARGV[1] is limit and window, then one or more costs. The reply is the time now; what counted before this call and when
-- the latest request was admitted (0 and 0 where there was none); then for each cost, where it did not fit, when enough
-- will have expired for it, else 0 (also where it never fits). Expired entries go when the next request is admitted.
-- Of the entries the first one is read, and further ones where they are needed: however many have expired at once, no
-- command returns or takes more than 1,000 of them.
--
$fast_call
if size < 24 or size % 8 ~= 0 then return redis.error_reply(WRONG_CALL) end
local limit, window, cost, at = struct.unpack('<ddd', call)
-- A key of another type is none of these records.
local head = redis.pcall('LINDEX', key, '0')
local used, last, kept = 0, 0, -1
local count, time, units = 0, 0, 0   -- how many entries have expired, and of the next one its time and its cost
if head then
  if #head ~= 35 then return redis.error_reply(NEEDS_SLOW_PATH) end
  local tag, l, w
  tag, l, w, used, last = struct.unpack('<I3dddd', head)
  if tag ~= $LOG_NUMBER or l ~= limit or w ~= window   -- L1:
    or not (used >= 0 and used % 1 == 0 and used <= $EXACT)
    or not (last >= 0 and last % 1 == 0 and last <= $EXACT) then
    return redis.error_reply(NEEDS_SLOW_PATH)
  end
  if used > 0 then
    local till
    $keep
    kept = till
  end
elseif not (limit >= 1 and limit % 1 == 0 and limit <= $EXACT
  and window >= 1 and window % 1 == 0 and window <= $SPAN) then
  return redis.error_reply(WRONG_CALL)
end
local clock = now   -- the time that counts: never before the latest entry's
if last > now then clock = last end
local entry, piece, place = used > 0 and redis.call('LINDEX', key, '1'), nil, 1
while used > 0 do
  if not entry then return redis.error_reply(NEEDS_SLOW_PATH) end
  time, units = tonumber(entry), 1
  if not time then
    time, units = string.match(entry, '^(%d+):(%d+)$')
    time, units = tonumber(time), tonumber(units)
  end
  if not (time and time >= 0 and time % 1 == 0 and time <= last and units >= 1 and units <= used) then
    return redis.error_reply(NEEDS_SLOW_PATH)
  end
  if clock < time + window then break end
  used, count = used - units, count + 1
  if not piece or place > #piece then piece, place = redis.call('LRANGE', key, count + 1, count + 1000), 1 end
  entry, place = piece[place], place + 1
end

local before, total = used, used   -- what counts of the entries that are stored, and of those of this call, too
local new, frees                   -- the entries that are admitted; what was found for each cost where there are several
local times, costs                 -- of the entries that count, as far as more than the first one was read
local free
while true do
  if not (cost >= 1 and cost % 1 == 0) then return redis.error_reply(WRONG_CALL) end
  free = 0
  if cost <= limit - total then
    changed, total = true, total + cost
    new = new or {}
    new[#new + 1] = string.format(cost == 1 and '%.0f' or '%.0f:%.0f', clock, cost)
  elseif cost <= limit then
    local missing = total - (limit - cost)
    if missing > before then
      free = clock + window   -- the rest was admitted in this call
    elseif missing <= units then
      free = time + window
    else
      times, costs = times or {time}, costs or {units}
      local freed, at_entry = 0, 0
      repeat
        at_entry = at_entry + 1
        if at_entry > #times then
          local more = redis.call('LRANGE', key, count + at_entry, count + at_entry + 999)
          for i = 1, #more do
            local t, u = string.match(more[i], '^(%d+):?(%d*)$')
            times[#times + 1], costs[#costs + 1] = tonumber(t), tonumber(u) or 1
          end
        end
        if not times[at_entry] then return redis.error_reply(NEEDS_SLOW_PATH) end
        freed = freed + costs[at_entry]
      until freed >= missing
      free = times[at_entry] + window
    end
  end
  if size > 24 then
    frees = frees or {}
    frees[#frees + 1] = free
  end
  if at > size then break end
  cost, at = struct.unpack('<d', call, at)
end

if changed then
  local last, till = clock, nil
  $keep
  local record = struct.pack('<I3dddd', $LOG_NUMBER, limit, window, total, clock)
  if head then
    -- The last expired entry stays in the head's place, and is overwritten by it.
    if count > 0 then redis.call('LTRIM', key, count, '-1') end
    redis.call('LSET', key, '0', record)
  else
    redis.call('RPUSH', key, record)
  end
  -- Lua's stack takes about 8,000 values at once, and no call should take long.
  for i = 1, #new, 1000 do redis.call('RPUSH', key, unpack(new, i, math.min(i + 999, #new))) end
  if till ~= kept then
    redis.call('PEXPIRE', key, math.ceil((till - now) / 1000) + skew)
  end
end
if frees then
  return struct.pack('<ddd', now, before, last) .. struct.pack('<' .. string.rep('d', #frees), unpack(frees))
end
return struct.pack('<dddd', now, before, last, free)

-- @log_entries
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

-- A part of a limit; nothing where its configuration is wrong.
local function new_log(limit, window)
  if window > $SPAN then return end
  return {is_log = true, capacity = limit, window = window, unit = 1, most = EXACT}
end

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

-- Until when a log by itself is kept.
local function log_kept_until(log)
  local window, till = log.window, last
  if log.used > 0 then
    $keep
  end
  return till
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

-- The entries of a record with one or more sliding logs, shared by all the logs, since each admission charges all of
-- them alike. A log, as a part of a limit, has `used`, the total cost of the newest entries, which are those that count for
-- it. When the record is written, those go that have expired for every log, but for some of the first chunk.
local last, at = 0, now         -- when the latest was admitted; the time that counts for the logs
local times, costs = {}, {}     -- the newest entries
local index = ''                -- of chunks, as it is stored
local oldest = -1               -- no entry that counts is older, as far as the head says
local stored = 0                -- how many chunks are stored
local apart = 0                 -- how many of the newest entries are stored as elements
local edited, edit              -- the number of the chunk that was changed, and what it is now
local total = 0                 -- of all entries that are stored
local added = 0                 -- what is new, all at `at`
local broken = false            -- whether an entry could not be read; then nothing is written

-- A part of a limit; nothing where its configuration is wrong.
local function new_log(limit, window)
  if limit > $MAX_LOG or window > $SPAN then return end
  return {is_log = true, capacity = limit, window = window, unit = 1, most = $MAX_CARRIED}
end

-- How many pairs of a chunk or the index have a time, or in place 9 a total, below this.
local function count_below(list, place, least)
  local count
  $log_count
  return count
end

-- The total of the first pairs of a chunk or the index, of so many of them.
local function total_of(list, count)
  return count > 0 and struct.unpack('<d', list, 16 * count - 7) or 0
end

local function lower(list, less)
  $log_lower
  return list
end

-- Reads the newest entries and the index, of which the head says this; `ahead` is what stands in it.
local function read_entries(newest, first, ahead)
  oldest = first or oldest
  local count = (newest or 0.5) % 256
  broken = count % 1 ~= 0
  if broken then return end
  local list, before = count > 0 and redis.call('LRANGE', key, -count, '-1') or {}, -1
  apart = #list
  stored = redis.call('LLEN', key) - apart - 1
  if stored > 0 then
    stored, count, index = stored - 1, count + 256, redis.call('LINDEX', key, '1')
    ahead, broken = nil, stored == 0
  end
  for _, entry in ipairs(list) do broken = broken or #entry ~= 16 end
  local all = (ahead or '') .. table.concat(list)
  broken = broken or count ~= newest or #index ~= 16 * stored or #all > 16 * $MAX_NEWEST
  if broken then return end
  total = total_of(index, stored)
  local numbers = {struct.unpack('<' .. string.rep('d', #all / 8), all)}
  for i = 1, #all / 16 do
    local time, cost = numbers[2 * i - 1], numbers[2 * i]
    broken = broken or not (time > before and time % 1 == 0 and cost >= 1 and cost % 1 == 0)
    times[i], costs[i] = time, cost
    before, total = time, total + cost
  end
  broken = broken or before > last or not (total <= $TWO_52)
end

-- A chunk, and how much those before it cost.
local function chunk_at(number)
  if number == edited then return edit, total_of(index, number) - total_of(edit, #edit / 16) end
  local chunk = redis.call('LINDEX', key, number + 1)
  if #chunk % 16 > 0 or sub(chunk, -16, -9) ~= sub(index, 16 * number - 15, 16 * number - 8) then
    broken, chunk = true, ''
  end
  return chunk, total_of(index, number) - total_of(chunk, #chunk / 16)
end

-- Puts another chunk in the place of one, behind those that cost so much.
local function set_chunk(number, chunk, before)
  if broken then return end
  local time = chunk ~= '' and sub(chunk, -16, -9) or sub(index, 16 * number - 15, 16 * number - 8)
  local entry = time .. struct.pack('<d', before + total_of(chunk, #chunk / 16))
  index = sub(index, 1, 16 * number - 16) .. entry .. sub(index, 16 * number + 1)
  edited, edit = number, chunk
end

-- The first entry whose time, or in place 9 the total up to it, is not below this: how much those before it cost, its time,
-- the total up to it, and its chunk with its place there, or nothing and its place among the newest. Where there is none, how
-- much all cost.
local function find_entry(place, least)
  local number = count_below(index, place, least) + 1
  if 16 * number <= #index then
    local chunk, before = chunk_at(number)
    if chunk == '' then return before end
    local count = count_below(chunk, place, place == 9 and least - before or least)
    local older = before + total_of(chunk, count)
    local time, up_to = struct.unpack('<dd', chunk, 16 * count + 1)
    return older, time, before + up_to, count, number
  end
  local older = total_of(index, number - 1)
  for i = 1, #times do
    local up_to = older + costs[i]
    if (place == 9 and up_to or times[i]) >= least then return older, times[i], up_to, i end
    older = up_to
  end
  return older
end

local function log_settle(log)
  if at - log.window < oldest then return end   -- which spares a chunk
  log.used = math.min(log.used, total - find_entry(1, at - log.window + 1))
end

-- When the smallest prefix of the entries that count for the log, new ones among them, has expired that
-- makes room for `cost`; 0 where it fits now or never can.
local function log_freed_at(log, cost)
  if cost > log.capacity or cost <= max(0, log.capacity - log.used) then return 0 end
  local goal = total + added - (log.capacity - cost)
  -- Of many costs in one call most are the same.
  if log.goal ~= goal then
    local _, time = find_entry(9, goal)
    log.goal, log.freed = goal, (time or at) + log.window
  end
  return log.freed
end

local function add_entry(logs, cost)
  for _, log in ipairs(logs) do log.used = log.used + cost end
  added, last = added + cost, at
end

-- What counts for the log for which the most does.
local function most_used(logs)
  local most = 0
  for _, log in ipairs(logs) do most = max(most, log.used) end
  return most
end

-- Whether these are all the logs of the entries that were read.
local function counts_entries(logs)
  local expired = total - most_used(logs)
  if index == '' then return expired == 0 end
  return times[1] and expired >= 0 and expired < total_of(index, 1)
end

-- Takes the newest entries out of the last chunk where there are none beside it.
local function refill()
  local number = #index / 16
  if times[1] or number == 0 then return end
  local chunk, before = chunk_at(number)
  local from = max(0, #chunk / 16 - $MAX_NEWEST)
  local older = total_of(chunk, from)
  for place = 16 * from + 1, #chunk, 16 do
    local time, up_to = struct.unpack('<dd', chunk, place)
    times[#times + 1], costs[#costs + 1], older = time, up_to - older, up_to
  end
  set_chunk(number, sub(chunk, 1, 16 * from), before)
end

-- The newest entries as they are stored.
local function newest_list()
  local list = {}
  for place = 1, #times do list[place] = struct.pack('<dd', times[place], costs[place]) end
  return list
end

-- Takes up to `cost` out of the newest entries, as far as they count for any log.
local function take_back(logs, cost)
  cost = math.min(cost, most_used(logs))
  for _, log in ipairs(logs) do log.used = log.used - math.min(log.used, cost) end
  if added > 0 then   -- what a conversion made is the only entry
    added = added - cost
    return
  end
  total = total - cost
  for place = #times, 1, -1 do
    local part = math.min(cost, costs[place])
    cost, costs[place] = cost - part, costs[place] - part
    if costs[place] == 0 then times[place], costs[place] = nil, nil end
  end
  if total == 0 then
    index = ''
  elseif cost > 0 then
    local number = count_below(index, 9, total) + 1
    local chunk, before = chunk_at(number)
    local count = count_below(chunk, 9, total - before)
    index = sub(index, 1, 16 * number)
    set_chunk(number, sub(chunk, 1, 16 * count + 8) .. struct.pack('<d', total - before), before)
  end
  refill()
end

-- Takes up to `cost` out of the entry of one time, as far as it counts for any log; how much that was.
local function cut_entries(logs, time, cost)
  local older, found, up_to, place, number = find_entry(1, time)
  if found ~= time then return 0 end
  local function counted(used)
    return max(0, math.min(up_to - older, used + up_to - total))
  end
  local cut = math.min(cost, counted(most_used(logs)))
  for _, log in ipairs(logs) do log.used = log.used - math.min(cut, counted(log.used)) end
  total = total - cut
  if number then
    local chunk, before = chunk_at(number)
    local behind = lower(sub(chunk, 16 * place + 1), cut)
    if cut == up_to - older then behind = sub(behind, 17) end
    index = sub(index, 1, 16 * number) .. lower(sub(index, 16 * number + 1), cut)
    set_chunk(number, sub(chunk, 1, 16 * place) .. behind, before)
  else
    costs[place] = costs[place] - cut
    if costs[place] == 0 then
      table.remove(times, place)
      table.remove(costs, place)
    end
    refill()
  end
  return cut
end

-- Until when a log by itself is kept.
local function log_kept_until(log)
  local window, till = log.window, last
  if log.used > 0 then
    $keep
  end
  return till
end

-- Writes the chunk that was changed. It and a neighbour become one where they fit into a chunk, so that there are never
-- many chunks of few entries.
local function store_edited()
  for first = max(1, edited - 1), math.min(edited, #index / 16 - 1) do
    local chunk, older = chunk_at(first)
    local other = chunk_at(first + 1)
    if #chunk + #other <= 16 * $MAX_CHUNK and not broken then
      redis.call('LSET', key, first + 1, '')
      redis.call('LREM', key, '1', '')
      index = sub(index, 1, 16 * first - 16) .. sub(index, 16 * first + 1)
      set_chunk(first, chunk .. lower(other, -total_of(chunk, #chunk / 16)), older)
      break
    end
  end
  redis.call('LSET', key, edited + 1, edit)
  redis.call('LSET', key, '1', index)
end

-- Writes the record, of which this is the head, and the newest entries anew. `is_list`: whether entries are stored already,
-- else nothing is; `is_there`: whether the key holds anything.
local function store_entries(logs, head, is_list, ttl, is_there)
  local record, expired = packed(head), total + added - most_used(logs)
  local _, first = find_entry(9, expired + 1)
  if apart > 0 then   -- as there is for each record with chunks
    redis.call('LTRIM', key, '0', index ~= '' and #index / 16 + 1 or '0')
  end
  if edited then store_edited() end
  stored = #index / 16
  local dropped, flushed, joins = count_below(index, 9, expired + 1), nil, nil
  local trim, cut = dropped, 0
  expired = expired - total_of(index, dropped)
  if 16 * dropped < #index then
    index = lower(sub(index, 16 * dropped + 1), total_of(index, dropped))
  else
    index, trim = '', stored > 0 and stored + 1 or 0
    while costs[1] and costs[1] <= expired do
      expired = expired - table.remove(costs, 1)
      table.remove(times, 1)
    end
    if costs[1] then costs[1] = costs[1] - expired end
    expired = 0
  end

  if added > 0 then
    if times[#times] ~= at then
      if #times == $MAX_NEWEST then
        local newest = table.concat(newest_list())
        $log_flush
        times, costs = {}, {}
      end
      times[#times + 1], costs[#costs + 1] = at, 0
    end
    costs[#costs] = costs[#costs] + added
  end
  local list = newest_list()
  local ahead = index == '' and math.min(#list, $MAX_IN_HEAD) or 0
  local count = #list - ahead + (index ~= '' and 256 or 0)
  if sub(record, 3, 3) == ':' then
    record = record .. struct.pack('<ddd', expired, first or times[1] or 0, count)
  else
    record = format('%s;%.0f;', record, count)
  end
  record = record .. table.concat(list, '', 1, ahead)
  if is_list then
    $log_store
  else
    if is_there then redis.call('DEL', key) end
    redis.call('RPUSH', key, record)
  end
  if list[ahead + 1] then redis.call('RPUSH', key, unpack(list, ahead + 1)) end
  redis.call('PEXPIRE', key, ttl)
end

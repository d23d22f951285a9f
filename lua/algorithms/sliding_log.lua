-- The sliding log. A list, whose last element is the head: the configuration (limit, window in us), the total cost of the
-- entries that count, and when the latest request was admitted (us), and behind it the newest entries, at most
-- $MAX_NEWEST. An entry is a time (us) and the cost of all that was admitted then, two doubles; the oldest comes first.
-- An entry at t counts for every time in [t, t + window).
--
-- Where there have been more entries, the older ones stand in chunks of at most $MAX_CHUNK, each an element, in which
-- an entry has in the place of its cost the total of its chunk up to it. Before them stands their index, the first
-- element: of each chunk the time of its last entry, and the total of all chunks up to it. Entries of the first chunk may
-- have expired. So what counts since a time, and the entry up to which so much was admitted, is found in the index and
-- one chunk.

-- @keep
-- The same for all admissions within a window, so that the expiry is set anew but once in each.
till = last - last % window + 2 * window
if till > $EXACT then till = $EXACT end

-- @log_count
-- Sets `count` to how many of the pairs in `list`, which are in order, have a number below `least` in their first place or,
-- where `place` is 9 and not 1, in their second.
local behind = #list / 16
count = 0
while count < behind do
  local middle = math.floor((count + behind) / 2)
  if struct.unpack('<d', list, 16 * middle + place) < least then count = middle + 1 else behind = middle end
end

-- @log_lower
-- Lowers the totals in `list` by `less`.
local pieces = {}
for at = 1, #list / 8, 128 do
  local size = math.min(128, #list / 8 - at + 1)
  local format = '<' .. string.rep('d', size)
  local numbers = {struct.unpack(format, list, 8 * at - 7)}
  for i = 2, size, 2 do numbers[i] = numbers[i] - less end
  pieces[#pieces + 1] = struct.pack(format, unpack(numbers, 1, size))
end
list = table.concat(pieces)

-- @log_flush
-- Makes the entries in `newest` a part of the last chunk or, where that is full, a chunk: sets `flushed`, which it is then,
-- and `joins`, whether it takes the last one's place, and adds it to `index`, which is empty where there are no chunks.
local numbers, sum, up_to = {struct.unpack('<' .. string.rep('dd', $MAX_NEWEST), newest)}, 0, 0
flushed = ''
if index ~= '' then
  up_to, flushed = struct.unpack('<d', index, #index - 7), redis.call('LINDEX', key, '-2')
end
joins = flushed ~= '' and #flushed <= 16 * ($MAX_CHUNK - $MAX_NEWEST)
if joins then
  sum = struct.unpack('<d', flushed, #flushed - 7)
  up_to, index = up_to - sum, string.sub(index, 1, -17)
else
  flushed = ''
end
for i = 2, 2 * $MAX_NEWEST, 2 do
  sum = sum + numbers[i]
  numbers[i] = sum
end
flushed = flushed .. struct.pack('<' .. string.rep('dd', $MAX_NEWEST), unpack(numbers))
index = index .. struct.pack('<dd', numbers[2 * $MAX_NEWEST - 1], up_to + sum)

-- @log_store
-- Writes the head, and the chunk that was `flushed`, if any; the first `dropped` chunks go, all of them where it
-- is -1.
if dropped ~= 0 then redis.call('LTRIM', key, dropped, '-1') end
if not flushed then
  redis.call('LSET', key, '-1', record)
elseif joins then
  redis.call('LSET', key, '-2', flushed)
  redis.call('LSET', key, '-1', record)
elseif #index == 16 then
  redis.call('RPUSH', key, flushed, record)
else
  redis.call('LSET', key, '-1', flushed)
  redis.call('RPUSH', key, record)
end
if flushed or dropped > 0 then redis.call('LSET', key, '0', index) end

-- @log_index
-- Sets `index` to the index as it is stored, where it is not at hand.
index = index or redis.call('LINDEX', key, '0')
if index == '' or #index % 16 > 0 then return redis.error_reply(NEEDS_SLOW_PATH) end

-- @log_chunk
-- Sets `list` to the chunk behind the first `count` ones, and `older` to the total of these.
list = redis.call('LINDEX', key, count + 1) or ''
if #list % 16 > 0 or string.sub(list, -16, -9) ~= string.sub(index, 16 * count + 1, 16 * count + 8) then
  return redis.error_reply(NEEDS_SLOW_PATH)
end
older = struct.unpack('<d', index, 16 * count + 9) - struct.unpack('<d', list, #list - 7)

-- @log_search
-- Sets `free` to the time of the entry up to which as much as is `missing` counts.
local least, place, count, older, list = expired + missing, 9, nil, nil, nil
free = nil
if first < struct.unpack('<d', record, from) then
  $log_index
  list = index
  $log_count
  if 16 * count < #index then
    $log_chunk
    least = least - older
    $log_count
    free = struct.unpack('<d', list, 16 * count + 1)
  else
    least = least - struct.unpack('<d', index, #index - 7)
  end
end
if not free then
  for at = from, length, 16 do
    local time, sum = struct.unpack('<dd', record, at)
    least = least - sum
    if least <= 0 then
      free = time
      break
    end
  end
  if not free then return redis.error_reply(NEEDS_SLOW_PATH) end
end

-- @sliding_log_acquire
$about
--
-- ARGV[1] is limit and window, then one or more costs. The reply is the time now; what counted before this call and when
-- the latest request was admitted (0 and 0 where there was none); then for each cost, where it did not fit, when enough
-- will have expired for it, else 0 (also where it never fits). Expired entries go when the next request is admitted.
-- Behind the state the head has two numbers more: how much of the first chunk has expired, and the time of the first
-- entry that counts.
--
$fast_call
if size < 24 or size % 8 ~= 0 then return redis.error_reply(WRONG_CALL) end
local limit, window, cost, at = struct.unpack('<ddd', call)
-- A key of another type is none of these records.
local record = redis.pcall('LINDEX', key, '-1')
local length, left = 0, 0   -- of the record, and how many of the newest entries count
local used, last, expired, first, kept = 0, 0, 0, 0, -1
if record then
  length = #record
  if length < 51 or length % 16 ~= 3 then return redis.error_reply(NEEDS_SLOW_PATH) end
  left = (length - 51) / 16
  local tag, l, w
  tag, l, w, used, last, expired, first = struct.unpack('<I3dddddd', record)
  if tag ~= $LOG_NUMBER or l ~= limit or w ~= window   -- L1:
    or not (used % 1 == 0 and used <= $TWO_52)
    or not (last >= 0 and last % 1 == 0 and last <= $EXACT) then
    return redis.error_reply(NEEDS_SLOW_PATH)
  end
  if used > 0 then
    local till
    $keep
    kept = till
  end
elseif not (limit >= 1 and limit % 1 == 0 and limit <= $MAX_LOG
  and window >= 1 and window % 1 == 0 and window <= $SPAN) then
  return redis.error_reply(WRONG_CALL)
end
local clock = now   -- the time that counts: never before the latest entry's
if last > now then clock = last end

local dropped, index = 0, nil   -- how many chunks have expired, and the index, once it was read
local gone = clock - window     -- what is not younger has expired
if first <= gone and left > 0 then
  local time, sum = struct.unpack('<dd', record, 52)
  if first < time then
    $log_index
    local list, place, least, count, older = index, 1, gone + 1, nil, nil
    $log_count
    if 16 * count < #index then
      dropped = count
      $log_chunk
      $log_count
      if count > 0 then older = older + struct.unpack('<d', list, 16 * count - 7) end
      first, used, expired = struct.unpack('<d', list, 16 * count + 1), used + expired - older, older
    else
      first, used, expired, dropped = time, used + expired - struct.unpack('<d', index, #index - 7), 0, -1
    end
  end
  while first <= gone and left > 0 do
    used, left = used - sum, left - 1
    if left > 0 then first, sum = struct.unpack('<dd', record, length - 16 * left + 1) end
  end
end
if not (used >= left and (left > 0 or used == 0)) then return redis.error_reply(NEEDS_SLOW_PATH) end
local from = length - 16 * left + 1   -- where in the record they begin

local before, total = used, used   -- what counts of the entries that are stored, and of those of this call, too
local frees                        -- what was found for each cost where there are several
local free
local found_for, found             -- for what was missing the last search was, and what it found
while true do
  if not (cost >= 1 and cost % 1 == 0) then return redis.error_reply(WRONG_CALL) end
  free = 0
  if cost <= limit - total then
    changed, total = true, total + cost
  elseif cost <= limit then
    local missing = total - (limit - cost)
    if missing > before then
      free = clock + window   -- the rest was admitted in this call
    elseif missing == 1 then
      free = first + window
    else
      if missing ~= found_for then
        $log_search
        found_for, found = missing, free + window
      end
      free = found
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
  local added, last, till = total - before, clock, nil
  $keep
  if before == 0 then first = clock end
  if dropped > 0 then
    local list, less = string.sub(index, 16 * dropped + 1), struct.unpack('<d', index, 16 * dropped - 7)
    $log_lower
    index, expired = list, expired - less
  end
  local newest, flushed, joins = '', nil, nil
  if left > 0 then
    newest = string.sub(record, from)
    local time, sum = struct.unpack('<dd', record, length - 15)
    if time == clock then
      newest, added = string.sub(record, from, -17), added + sum
    elseif left == $MAX_NEWEST then
      if first < struct.unpack('<d', newest) then
        $log_index
      else
        index = ''
      end
      $log_flush
      newest = ''
    end
  end
  local entry = struct.pack('<dd', clock, added)
  record = struct.pack('<I3dddddd', $LOG_NUMBER, limit, window, total, clock, expired, first) .. newest .. entry
  if length == 0 then
    redis.call('RPUSH', key, record)
  else
    $log_store
  end
  if till ~= kept then
    redis.call('PEXPIRE', key, math.ceil((till - now) / 1000) + skew)
  end
end
if frees then
  return struct.pack('<ddd', now, before, last) .. struct.pack('<' .. string.rep('d', #frees), unpack(frees))
end
return struct.pack('<dddd', now, before, last, free)

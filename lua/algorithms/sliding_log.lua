-- The sliding log. A list, whose first element is the head: the configuration (limit, window in us), the total cost of
-- the entries that count, and when the latest request was admitted (us). An entry is a time (us) and the cost of all
-- that was admitted then, two doubles. An entry at t counts for every time in [t, t + window). The newest entries, at
-- most $MAX_NEWEST, are the last elements; the oldest comes first.
--
-- Where there have been more entries, the older ones stand in chunks of at most $MAX_CHUNK, each an element, in which
-- an entry has in the place of its cost the total of its chunk up to it. Before them stands their index, the second
-- element: of each chunk the time of its last entry, and the total of all chunks up to it. Entries of the first chunk may
-- have expired. So what counts since a time, and the entry up to which so much was admitted, is found in the index and
-- one chunk.
--
-- The head goes on with at most $MAX_IN_HEAD of the entries that expire next, so that few calls read any others: copies
-- of those in the first chunk or, where there is none, the first of the newest ones, which are then no elements.

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
-- and `joins`, whether it takes the last one's place, and adds it to `index`, which is empty where there are no chunks. A
-- chunk has at most 16 entries for each chunk that there is: where there are few, they cost little to read.
local numbers, sum, up_to = {struct.unpack('<' .. string.rep('dd', $MAX_NEWEST), newest)}, 0, 0
flushed = ''
if index ~= '' then
  up_to, flushed = struct.unpack('<d', index, #index - 7), redis.call('LINDEX', key, dropped + #index / 16 + 1)
end
joins = flushed ~= '' and #flushed <= 16 * (math.min($MAX_CHUNK, #index) - $MAX_NEWEST)
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
-- Writes the head, and the chunk that was `flushed`, if any; `trim` elements go at the front, and `cut` at the end. Of
-- those that stay the first ones are written over.
if trim > 0 or cut > 0 then redis.call('LTRIM', key, trim, -1 - cut) end
redis.call('LSET', key, '0', record)
if joins then
  redis.call('LSET', key, '-1', flushed)
elseif flushed and #index == 16 then
  redis.call('RPUSH', key, index, flushed)
elseif flushed then
  redis.call('RPUSH', key, flushed)
end
if flushed or trim > 0 and index and index ~= '' then redis.call('LSET', key, '1', index) end

-- @log_index
-- Sets `index` to the index as it is stored, where it is not at hand.
index = index or redis.call('LINDEX', key, '1') or ''
if index == '' or #index % 16 > 0 then return redis.error_reply(NEEDS_SLOW_PATH) end

-- @log_chunk
-- Sets `list` to the chunk behind the first `count` ones, and `older` to the total of these.
list = redis.call('LINDEX', key, count + 2) or ''
if #list % 16 > 0 or string.sub(list, -16, -9) ~= string.sub(index, 16 * count + 1, 16 * count + 8) then
  return redis.error_reply(NEEDS_SLOW_PATH)
end
older = struct.unpack('<d', index, 16 * count + 9) - struct.unpack('<d', list, #list - 7)

-- @log_newest
-- Sets `newest` to the newest entries that count, where they are not at hand.
if not newest then
  newest = stored > 0 and table.concat(redis.pcall('LRANGE', key, -stored, '-1')) or ''
  if #newest ~= 16 * stored then return redis.error_reply(NEEDS_SLOW_PATH) end
  if not chunked then newest = string.sub(record, from) .. newest end
end

-- @log_search
-- Sets `free` to the time of the entry up to which as much as is `missing` counts.
local least, place, count, older, list = expired + missing, 9, nil, nil, nil
free = nil
if chunked then
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
  $log_newest
  for at = 1, #newest, 16 do
    local time, sum = struct.unpack('<dd', newest, at)
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
-- ARGV[1] is limit and window, then one or more costs. The reply is what counted before this call, where it is one cost
-- and fits, and the clock is not behind the record; else the time now; what counted before this call and when
-- the latest request was admitted (0 and 0 where there was none); then for each cost, where it did not fit, when enough
-- will have expired for it, else 0 (also where it never fits). Expired entries go when the next request is admitted.
-- Behind the state the head has three numbers more: how much of the first chunk has expired, the time of the first
-- entry that counts, and how many elements are newest entries, and 256 more where there are chunks.
--
$fast_call
if size < 24 or size % 8 ~= 0 then return redis.error_reply(WRONG_CALL) end
local limit, window, cost, at = struct.unpack('<ddd', call)
-- A key of another type is none of these records.
local record = redis.pcall('LINDEX', key, '0')
local length, used, last, expired, first, stored, kept, chunked = 59, 0, 0, 0, 0, 0, -1, false
if record then
  length = #record
  if length < 59 or length % 16 ~= 11 then return redis.error_reply(NEEDS_SLOW_PATH) end
  local tag, l, w
  tag, l, w, used, last, expired, first, stored = struct.unpack('<I3ddddddd', record)
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
  chunked = stored >= 256
  if chunked then stored = stored - 256 end
elseif not (limit >= 1 and limit % 1 == 0 and limit <= $MAX_LOG
  and window >= 1 and window % 1 == 0 and window <= $SPAN) then
  return redis.error_reply(WRONG_CALL)
end
local clock = now   -- the time that counts: never before the latest entry's
if last > now then clock = last end

local from, left = 60, stored   -- where in the head the entries begin that count, and how many of the newest do
local front, newest, index      -- what is to be in the head of them, the newest, and the index, once they are at hand
local dropped, trim = 0, 0      -- how many chunks have expired while others count, and how many elements go at the front
local gone = clock - window     -- what is not younger has expired
if not chunked then left = left + (length - 59) / 16 end
if first <= gone and left > 0 then
  while from < length do
    local time, sum = struct.unpack('<dd', record, from)
    if time > gone then
      first = time
      break
    end
    from = from + 16
    if chunked then used, expired = used + expired - sum, sum else used, left = used - sum, left - 1 end
  end
  if first <= gone and chunked then
    $log_index
    local list, place, least, count, older = index, 1, gone + 1, nil, nil
    $log_count
    if 16 * count < #index then
      dropped, trim = count, count
      $log_chunk
      $log_count
      if count > 0 then older = older + struct.unpack('<d', list, 16 * count - 7) end
      first, used, expired = struct.unpack('<d', list, 16 * count + 1), used + expired - older, older
      front = string.sub(list, 16 * count + 1, 16 * (count + $MAX_IN_HEAD))
    else
      if redis.call('LLEN', key) ~= count + 2 + stored then return redis.error_reply(NEEDS_SLOW_PATH) end
      used, expired = used + expired - struct.unpack('<d', index, #index - 7), 0
      trim, index, chunked = count + 1, '', false
    end
  end
  if first <= gone and left > 0 then
    $log_newest
    local at, sum = 1, nil
    repeat
      first, sum = struct.unpack('<dd', newest, at)
      if first > gone then break end
      used, left, at = used - sum, left - 1, at + 16
    until left == 0
    newest = string.sub(newest, at)
    front = string.sub(newest, 1, 16 * $MAX_IN_HEAD)
    trim = trim + (at - 1 + #front) / 16
  end
end
if not (used >= left and (left > 0 or used == 0)) then return redis.error_reply(NEEDS_SLOW_PATH) end

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
  local added, cut, merges, flushed, joins = total - before, 0, false, nil, nil
  if before == 0 then first = clock end
  if dropped > 0 then
    local list, less = string.sub(index, 16 * dropped + 1), struct.unpack('<d', index, 16 * dropped - 7)
    $log_lower
    index, expired = list, expired - less
  end
  front = front or record and string.sub(record, from) or ''
  local apart = chunked and left or left - #front / 16   -- how many of the newest entries are elements
  if last == clock and left > 0 then
    $log_newest
    local time, sum = struct.unpack('<dd', newest, #newest - 15)
    if time == clock then merges, added = true, added + sum end
  end
  if not merges and left == $MAX_NEWEST then
    $log_newest
    if chunked then
      $log_index
    else
      index, chunked, front = '', true, ''
    end
    $log_flush
    cut, apart = apart, 0
  end
  local entry = struct.pack('<dd', clock, added)
  local is_ahead = not chunked and apart == 0 and (merges or #front < 16 * $MAX_IN_HEAD)
  if is_ahead then
    if merges then front = string.sub(front, 1, -17) end
    front = front .. entry
  elseif not merges then
    apart = apart + 1
  end
  if chunked then apart = apart + 256 end
  local last, till, is_new = clock, nil, not record
  $keep
  record = struct.pack('<I3ddddddd', $LOG_NUMBER, limit, window, total, clock, expired, first, apart) .. front
  if is_new then
    redis.call('RPUSH', key, record)
  else
    $log_store
    if merges and not is_ahead then
      redis.call('LSET', key, '-1', entry)
    elseif not is_ahead then
      redis.call('RPUSH', key, entry)
    end
  end
  if till ~= kept then
    redis.call('PEXPIRE', key, math.ceil((till - now) / 1000) + skew)
  end
end
-- A call of several keys may charge none of them, and then needs all numbers.
if changed and clock == now and not frees and not redis.holds_writes then return before end
if frees then
  return struct.pack('<ddd', now, before, last) .. struct.pack('<' .. string.rep('d', #frees), unpack(frees))
end
return struct.pack('<dddd', now, before, last, free)

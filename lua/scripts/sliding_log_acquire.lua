-- The sliding log: limit and window in ARGV[1]. A list, whose first element is the head: behind the configuration the total
-- cost of the entries, and when the latest request was admitted (us); the others are the entries, as `log_entries` says,
-- the oldest first. An entry at t counts for every time in [t, t + window). Expired entries go when the next request is admitted.
-- The reply is the time now; what counted before this call and when the latest request was admitted (0 and 0 where there
-- was none); then for each cost, where it did not fit, when enough will have expired for it, else 0 (also where it never fits).
--
-- Of the entries the first one is read, and further ones where they are needed: however many have expired at once, no
-- command returns or takes more than 1,000 of them.
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
  if tag ~= 3813708 or l ~= limit or w ~= window   -- L1:
    or not (used >= 0 and used % 1 == 0 and used < 9007199254740992)
    or not (last >= 0 and last % 1 == 0 and last < 9007199254740992) then
    return redis.error_reply(NEEDS_SLOW_PATH)
  end
  if used > 0 then
    kept = last - last % window + 2 * window
    if kept > 9007199254740991 then kept = 9007199254740991 end
  end
elseif not (limit >= 1 and limit % 1 == 0 and limit < 9007199254740992
  and window >= 1 and window % 1 == 0 and window <= 2251799813685248) then
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
  local keep = clock - clock % window + 2 * window
  if keep > 9007199254740991 then keep = 9007199254740991 end
  local record = struct.pack('<I3dddd', 3813708, limit, window, total, clock)
  if head then
    -- The last expired entry stays in the head's place, and is overwritten by it.
    if count > 0 then redis.call('LTRIM', key, count, '-1') end
    redis.call('LSET', key, '0', record)
  else
    redis.call('RPUSH', key, record)
  end
  -- Lua's stack takes about 8,000 values at once, and no call should take long.
  for i = 1, #new, 1000 do redis.call('RPUSH', key, unpack(new, i, math.min(i + 999, #new))) end
  if keep ~= kept then
    redis.call('PEXPIRE', key, math.ceil((keep - now) / 1000) + skew)
  end
end
if frees then
  return struct.pack('<ddd', now, before, last) .. struct.pack('<' .. string.rep('d', #frees), unpack(frees))
end
return struct.pack('<dddd', now, before, last, free)

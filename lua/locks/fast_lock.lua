-- The record of a lock that nobody waits for in line, as both paths write it: `K2:`, the deadline, the token, `keep`,
-- `wake`, `ahead` and `forgotten`, each a double; the owner, in 16 bytes; how many entries follow and how many of them
-- are holds, each in one byte; the entries, of 34 bytes: first the holds, then those that ended, of both the latest
-- first; and the label. An entry is a letter (h for a hold), an id in 16 bytes, the token of its grant, in one byte how
-- many holds were left (zeros where the text has none), and until when its acquire may arrive. So the release of the only
-- hold writes two bytes.
-- lock_record.lua says what these are.
--
-- `record` is what the key holds: a key of another type holds none of these records.
local old = record or '$LOCK:' .. string.rep('\0', 66)
if #old < 69 then return redis.error_reply(NEEDS_SLOW_PATH) end
$unpack_lock
if not is_lock
  or not (deadline >= 0 and deadline % 1 == 0 and deadline <= $LATEST_END
    and token % 1 == 0 and token <= $LATEST_END
    and keep % 1 == 0 and keep <= $EXACT
    and wake >= 0 and wake % 1 == 0 and wake <= $EXACT
    and ahead >= 0 and ahead % 1 == 0 and ahead <= token
    and forgotten >= 0 and forgotten % 1 == 0 and forgotten < $LATEST_TIME) then
  return redis.error_reply(NEEDS_SLOW_PATH)
end
local kept = keep   -- until when the record was kept
if now >= keep then
  if keep < 0 then return redis.error_reply(NEEDS_SLOW_PATH) end
  deadline, token, keep, wake, forgotten, entries, holds = 0, 0, 0, 0, 0, 0, 0
  kept, old = -1, ''
end
local live = holds > 0 and now < deadline
local reply

-- @unpack_lock
local tag, deadline, token, keep, wake, ahead, forgotten, owner, entries, holds = struct.unpack('$LOCK_HEAD', old)
local label = 70 + 34 * entries   -- where it begins
local is_lock = tag == $LOCK_NUMBER and holds <= $MAX_HOLDS and holds <= entries and entries <= holds + 4
  and label <= #old + 1 and #old < label + $MAX_LABEL

-- @find_hold
-- Where the id stands, if it is that of a live hold of this owner's. The first place where its bytes stand may be
-- none.
local at = string.find(old, id, 71, true)
if at and (not live or owner ~= who or at >= 71 + 34 * holds or (at - 71) % 34 ~= 0) then
  return redis.error_reply(NEEDS_SLOW_PATH)
end

-- @forget_last
-- An acquire that is no later than those of the holds that are forgotten may be a copy of one of them.
local gone = struct.unpack('<d', old, label - 8)
if gone > forgotten then forgotten = gone end
entries = entries - 1

-- @lock_kept
if keep < deadline + remember then
  keep = deadline + remember
  keep = keep + math.floor((keep - now) / 2)
  if keep > $EXACT then keep = $EXACT end
end
if keep <= token then keep = token + 1 end

-- @store_lock
-- A write that leaves the expiry costs half of one that moves it.
if keep ~= kept then
  redis.call('SET', key, record, 'PX', math.ceil((keep - now) / 1000) + skew)
elseif #record == #old then
  redis.call('SETRANGE', key, '0', record)
else
  redis.call('SET', key, record, 'KEEPTTL')
end

-- @held
reply = struct.pack('<ddddd', now, 1, token, holds, deadline)

-- @refused
reply = struct.pack('<ddddddddd', now, 0, token, holds, deadline, struct.unpack('>I4I4I4I4', owner))

-- @not_held
if live then
  $refused
else
  reply = struct.pack('<dd', now, 0)
end

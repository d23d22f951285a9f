-- The record of a lock that nobody waits for in line, as both paths write it: `K1:`, the deadline, the token, `keep`,
-- `wake` and `ahead`, each a double; how many holds that ended are remembered, in one byte, and how many holds there
-- are, in two; the owner, in 16 bytes; the holds that ended, the latest first, each its letter, its id in 16 bytes, its
-- token and, in one byte, how many were left (zeros where the text has none); the ids of the holds, 16 bytes each, the
-- oldest first; and the label. lock_record.lua says what these are.
local FREE = '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'
-- A key of another type is none of these records.
local record = redis.pcall('GET', key)
local old = record or '$LOCK:' .. string.rep('\0', 59)   -- what stands behind the owner begins at its byte 63
if #old < 62 then return redis.error_reply(NEEDS_SLOW_PATH) end
$unpack_lock
if not is_lock
  or not (deadline >= 0 and deadline % 1 == 0 and deadline <= $LATEST_END
    and token >= 0 and token % 1 == 0 and token <= $LATEST_END
    and keep >= 0 and keep % 1 == 0 and keep <= $EXACT
    and wake >= 0 and wake % 1 == 0 and wake <= $EXACT
    and ahead >= 0 and ahead % 1 == 0 and ahead <= token) then
  return redis.error_reply(NEEDS_SLOW_PATH)
end
local kept = keep   -- until when the record was kept
if now >= keep then
  deadline, token, keep, wake, ahead, ends, holds, owner = 0, 0, 0, 0, 0, 0, 0, FREE
  kept, old = -1, ''
end
local live = holds > 0 and now < deadline
local reply

-- @unpack_lock
local tag, deadline, token, keep, wake, ahead, ends, holds, owner, from = struct.unpack('$LOCK_HEAD', old)
local label = #old - 62 - 26 * ends - 16 * holds
local is_lock = tag == $LOCK_NUMBER and ends <= 4 and holds <= $MAX_HOLDS
  and label >= 0 and label <= $MAX_LABEL and (holds > 0 or label == 0)

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

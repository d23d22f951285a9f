-- Gives one hold of its owner back; the last one frees the lock, and tells the waiters. An id that the record knows,
-- but not as a hold of this owner's, is for lock_release.
--
-- ARGV[1]  how long to remember it (us), as a number; the owner and the hold's id, 16 bytes each
-- Reply    the time now, then 4, the token, and how many holds are left: done;
--          0, and what fast_lock_acquire replies of the holder, if there is one: refused
$fast_call
-- It frees or keeps: see the prelude.
local record = redis.pcall('GETEX', key)
$fast_lock
if size ~= 40 then return redis.error_reply(WRONG_CALL) end
local remember, who, id = struct.unpack('<dc16c16', call)
if not (remember >= 1 and remember % 1 == 0 and remember <= $LONGEST) then
  return redis.error_reply(WRONG_CALL)
end
$find_hold
if not at then
  $not_held
  return reply
end
$lock_kept
reply = struct.pack('<dddd', now, 4, token, holds - 1)
if holds == 1 and now < wake then
  redis.pcall(redis.REDIS_VERSION_NUM and 'SPUBLISH' or 'PUBLISH', key, '')
end
if holds == 1 and entries <= 4 and keep == kept then
  redis.call('SETRANGE', key, '68', '\0r')
  return reply
end
local first = 70 + 34 * holds   -- of those that ended
local last = label - 1
holds = holds - 1
if entries - holds > 4 then
  $forget_last
  last = label - 35
end
record = struct.pack('$LOCK_HEAD', $LOCK_NUMBER, deadline, token, keep, wake, ahead, forgotten, owner, entries, holds)
  .. string.sub(old, 70, at - 2) .. string.sub(old, at + 33, first - 1)
  .. struct.pack('<$LOCK_ENTRY', 'r', id, token, holds, (struct.unpack('<d', old, at + 25)))
  .. string.sub(old, first, last) .. string.sub(old, label)
$store_lock
return reply

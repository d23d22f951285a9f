-- Gives one hold of its owner back; the last one frees the lock, and tells the waiters. An id that the record knows,
-- but not as a hold of this owner's, is for lock_release.
--
-- ARGV[1]  how long to remember it (us), as a number; the owner and the hold's id, 16 bytes each
-- Reply    the time now, then 4, the token, and how many holds are left: done;
--          0, and what fast_lock_acquire replies of the holder, if there is one: refused
$fast_call
$fast_lock
if size ~= 40 then return redis.error_reply(WRONG_CALL) end
local remember, who, id = struct.unpack('<dc16c16', call)
if not (remember >= 1 and remember % 1 == 0 and remember <= $LONGEST) then
  return redis.error_reply(WRONG_CALL)
end
local first = 63 + 26 * ends
local at = string.find(old, id, 63, true)
if at then
  -- The first place where these bytes stand may be no id.
  if not live or owner ~= who or at < first or at >= first + 16 * holds or (at - first) % 16 ~= 0 then
    return redis.error_reply(NEEDS_SLOW_PATH)
  end
  changed, holds = true, holds - 1
  reply = struct.pack('<dddd', now, 4, token, holds)
  local before, left = string.sub(old, 63, ends < 4 and first - 1 or 140), ''
  if ends < 4 then ends = ends + 1 end
  local until_us = deadline
  if holds == 0 then
    deadline, ahead, owner, until_us = 0, 0, FREE, now
    if now < wake then redis.pcall(redis.REDIS_VERSION_NUM and 'SPUBLISH' or 'PUBLISH', key, '') end
  else
    left = string.sub(old, first, at - 1) .. string.sub(old, at + 16)
  end
  if keep < until_us + remember then keep = until_us + remember end
  if keep <= token then keep = token + 1 end
  record = struct.pack('$LOCK_HEADc1c16dI1', $LOCK_NUMBER, deadline, token, keep, wake, ahead, ends, holds, owner,
    'r', id, token, holds) .. before .. left
else
  $not_held
end
$fast_store

-- Extends the lease of its owner to at least now + lease.
--
-- ARGV[1]  how long to remember its holds, and the lease (us), as numbers; the owner, 16 bytes; and, as a number, the
--          fencing token of the grant, or nothing for whichever it has
-- Reply    as fast_lock_release where it is refused, or as fast_lock_acquire: the grant as it stands
$fast_call
-- It frees or keeps: see the prelude.
local record = redis.pcall('GETEX', key)
$fast_lock
if size ~= 32 and size ~= 40 then return redis.error_reply(WRONG_CALL) end
local remember, lease, who = struct.unpack('<ddc16', call)
if not (remember >= 1 and remember % 1 == 0 and remember <= $LONGEST
  and lease >= 1 and lease % 1 == 0 and lease <= $LONGEST) then
  return redis.error_reply(WRONG_CALL)
end
if not live or owner ~= who or size == 40 and struct.unpack('<d', call, 33) ~= token then
  $not_held
  return reply
end
local is_longer = deadline < now + lease
if is_longer then deadline = now + lease end
$lock_kept
$held
if keep ~= kept then
  record = struct.pack('$LOCK_HEAD', $LOCK_NUMBER, deadline, token, keep, wake, ahead, forgotten, owner, entries, holds)
    .. string.sub(old, 70)
  redis.call('SET', key, record, 'PX', math.ceil((keep - now) / 1000) + skew)
elseif is_longer then
  redis.call('SETRANGE', key, '3', struct.pack('<d', deadline))
end
return reply

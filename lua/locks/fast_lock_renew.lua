-- Extends the lease of its owner to at least now + lease.
--
-- ARGV[1]  how long to remember its holds, and the lease (us), as numbers; the owner, 16 bytes; and, as a number, the
--          fencing token of the grant, or nothing for whichever it has
-- Reply    as fast_lock_release of who is refused, or as fast_lock_acquire: the grant as it stands
$fast_call
$fast_lock
if size ~= 32 and size ~= 40 then return redis.error_reply(WRONG_CALL) end
local remember, lease, who = struct.unpack('<ddc16', call)
if not (remember >= 1 and remember % 1 == 0 and remember <= $LONGEST
  and lease >= 1 and lease % 1 == 0 and lease <= $LONGEST) then
  return redis.error_reply(WRONG_CALL)
end
if live and owner == who and (size == 32 or struct.unpack('<d', call, 33) == token) then
  if deadline < now + lease then changed, deadline = true, now + lease end
  if keep < deadline + remember then changed, keep = true, deadline + remember end
  if keep <= token then changed, keep = true, token + 1 end
  $held
  if changed then
    record = struct.pack('$LOCK_HEAD', $LOCK_NUMBER, deadline, token, keep, wake, ahead, ends, holds, owner)
      .. string.sub(old, 63)
  end
else
  $not_held
end
$fast_store

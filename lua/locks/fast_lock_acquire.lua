-- Takes the lock where it is free, or holds it once more for its owner, as lock_acquire does without a place in line. A
-- hold whose lease is over, and an id that the record knows but not as a live hold of this owner's, are left to it.
--
-- ARGV[1]  how long to remember it (us), the lease (us), refuse after this time (us), and for how long the caller waits
--          before it is back (us, 0 where it does not), as numbers; the owner and the hold's id, 16 bytes each; and who it
--          is in words, up to $MAX_LABEL characters
-- Reply    the time now, then 1, the token, how many holds, the deadline: it is held;
--          0, and token, holds and deadline of the holder, and the owner in four parts of 32 bits: refused;
--          or 2, and until when acquires of forgotten holds may arrive: it came too late, or no later than one of these may
$fast_call
local record = redis.pcall('GET', key)
$fast_lock
if size < 64 or size > 64 + $MAX_LABEL then return redis.error_reply(WRONG_CALL) end
local remember, lease, not_after, waits, who, id = struct.unpack('<ddddc16c16', call)
if not (remember >= 1 and remember % 1 == 0 and remember <= $LONGEST
  and lease >= 1 and lease % 1 == 0 and lease <= $LONGEST
  and not_after >= 0 and not_after % 1 == 0 and not_after <= $EXACT
  and waits >= 0 and waits % 1 == 0 and waits <= $LONGEST) then
  return redis.error_reply(WRONG_CALL)
end
$find_hold
local till = not_after < $LATEST_TIME and not_after or 0
if at then
  if struct.unpack('<d', old, at + 25) < till then
    redis.call('SETRANGE', key, at + 24, struct.pack('<d', till))
  end
  $held
  return reply
end
if holds > 0 and not live then return redis.error_reply(NEEDS_SLOW_PATH) end
if now > not_after or not_after <= forgotten then return struct.pack('<ddd', now, 2, forgotten) end
local behind   -- what is to stand behind the new hold
if not live then
  token = token + 1
  if token < now then token = now end
  deadline, ahead, holds, owner = now + lease, token - now, 1, who
  if entries > 3 then
    $forget_last
  end
  behind = string.sub(old, 70, 69 + 34 * entries)
  if size > 64 then behind = behind .. string.sub(call, 65) end
elseif owner == who and holds < $MAX_HOLDS then
  holds = holds + 1
  if deadline < now + lease then deadline = now + lease end
  behind = string.sub(old, 70)
else
  if waits > 0 and wake < now + math.ceil(waits / 2) then
    redis.call('SETRANGE', key, '27', struct.pack('<d', now + waits))
  end
  $refused
  return reply
end
$lock_kept
$held
record = struct.pack('$LOCK_HEAD$LOCK_ENTRYc0', $LOCK_NUMBER, deadline, token, keep, wake, ahead, forgotten, owner,
  entries + 1, holds, 'h', id, token, 0, till, behind)
$store_lock
return reply

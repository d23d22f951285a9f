-- Admits requests under the limit that is stored with the key, where that is one counter with nothing behind its state;
-- or where the key holds nothing, under a default that is one counter. `limiter_acquire` does so under any limit.
--
-- ARGV[1] is the longest that the turn of a request may be away when it is admitted (us); how many costs there are, at
-- least one, and each; and if there is a default, what its record begins with.
-- The record is $POLICY:, and behind it what `packed` describes.
-- The reply is the time; the state before, settled, unless the limit is per client; and the limit, as `told` tells it.
-- Where no limit is, it is the time. A limit per client is for another key, and is kept.
--
$fast_call
-- A key of another type is none of these records.
local record = redis.pcall('GET', key)
if size < 24 then return redis.error_reply(WRONG_CALL) end
local max_wait, count, cost, at = struct.unpack('<ddd', call)
local costs_end = 16 + 8 * count
if not (max_wait >= 0 and count >= 1 and count % 1 == 0 and costs_end <= size) then
  return redis.error_reply(WRONG_CALL)
end
if not record and costs_end == size then return struct.pack('<d', now) end
local stored = record or string.sub(call, costs_end + 1)
size = costs_end
if #stored < 13 then return redis.error_reply(NEEDS_SLOW_PATH) end
local tag, scope, letter, keep = struct.unpack('<I3c1I1d', stored)
if tag ~= $POLICY_NUMBER   -- $POLICY:
  or scope ~= 'o' and scope ~= 'c'
  or not (keep >= 1 and keep % 1 == 0 and keep <= $LONGEST)
then
  return redis.error_reply(NEEDS_SLOW_PATH)
end
local reply, left, till, span, wrong
$for_each_algorithm
$elseif letter == $LETTER and #stored == (record and $STORED_SIZE or $STORED_PLACE) then   -- $TAG
  $stored_counter
$end
end
return redis.error_reply(NEEDS_SLOW_PATH)

-- @stored_counter
local $config, over, $state
if record then
  $config, over, $state = struct.unpack('<$D_CONFIGd$D_STATE', stored, 14)
else
  $config = struct.unpack('<$D_CONFIG', stored, 14)
end
$wrong
if wrong
  or not ($each_config >= 1 and $each_config % 1 == 0 and $each_config <= $EXACT)
  or record and not ($each_state >= 0 and $each_state % 1 == 0 and $each_state <= $EXACT)
  or record and not (over > now and over % 1 == 0 and over <= $LATEST_END)
then
  return redis.error_reply(NEEDS_SLOW_PATH)
end
$if_given
-- Only within the window that is stored: the call gives no others.
local $each_given = 0
$check_clock
$end_given
if record then
  $settle
else
  $new
end
if scope == 'c' then
  if $counted > 0 then return redis.error_reply(NEEDS_SLOW_PATH) end
  $if_previous
  if $previous > 0 then return redis.error_reply(NEEDS_SLOW_PATH) end
  $end_previous
  $if_warmth
  if $warmth > 0 then return redis.error_reply(NEEDS_SLOW_PATH) end
  $end_warmth
  reply = struct.pack('<dddd$D_CONFIGd', now, 1, keep, letter, $config, 3 + $CONFIGS)
  till = $latest
else
  reply = struct.pack('<d$D_STATEddd$D_CONFIGd', now, $state, 0, keep, letter, $config, 3 + $CONFIGS)
  $charge
  $span
  $keep
end
-- The limit is kept until `till`, and the key until the end of a stretch of an eighth of `keep`. Where the old record
-- was kept until then, too, its expiry stays.
if till < now + keep then till = now + keep end
local new_state, stretch = struct.pack('<d$D_STATE', till, $state), (keep - keep % 8) / 8 + 1
if record and till - till % stretch == over - over % stretch then
  redis.call('SETRANGE', key, '$STORED_PLACE', new_state)
else
  redis.call('SET', key, string.sub(stored, 1, $STORED_PLACE) .. new_state,
    'PX', math.ceil((till - till % stretch + stretch - now) / 1000) + skew)
end
return reply, scope == 'c' and 'kept' or nil   -- which is for a call of several keys

$about
--
-- Configuration  $config: $config_words
-- Given          $each_given: $given_words
-- State          $state: $state_words
-- Call           $each_call: $call_words
-- ARGV[1] is $asked, then one or more costs; or one, a |, the 16 bytes of an id, and for how long the request is
-- remembered by it (us). The record is $TAG: and $config, $state, and behind them what `reservations`
-- describes, of which a bucket's lowest level changes here; or as `fast_requests` describes.
-- The reply is the time and, where there is a record, its state as it was stored. That to a request with an id has
-- a state always: without a record a fresh one.
--
$fast_call
-- A key of another type is none of these records.
local record = redis.pcall('GET', key)
local id, remember          -- of this request, if it has an id
local kept, next_one, are_known   -- of those that the record remembers, if it does, and whether they are known now
if size == $CALL_SIZE + 25 then
  $read_id
elseif size < $CALL_SIZE or size % 8 ~= 0 then
  return redis.error_reply(WRONG_CALL)
end
local $asked, cost, at = struct.unpack('<$D_ASKEDd', call)
if not ($each_call >= 0) then return redis.error_reply(WRONG_CALL) end
if not ($each_given >= 0 and $each_given % 1 == 0 and $each_given <= $EXACT) then return redis.error_reply(WRONG_CALL) end
$read_counter
local reply
if id then
  if are_known then
    $repeated
  end
  $told
else
  $reply
end

local left   -- the largest cost that fits
$charge
local new_state
if id or kept then
  $remember
end

-- The record is kept until `till` (us). Where the old one was kept until then, too, its expiry stays.
local span, till
$pack_state
$span
$keep
if record and old_$counted > 0 then
  local new_till = till
  $each_state = old_$each_state
  $keep
  if till == new_till then
    redis.call('SETRANGE', key, '$PLACE', new_state)
    return reply
  end
  till = new_till
end
if record then new_state = new_state .. string.sub(record, $PLACE + 1 + #new_state) end
record = '$TAG:' .. string.sub(call, 1, $CONFIG_SIZE) .. new_state
redis.call('SET', key, record, 'PX', math.ceil((till - now) / 1000) + skew)
return reply

-- @read_counter
local $state, $old_state, low
if record then
  local tag, $stored_config, $stored_state
  if #record == $RECORD_SIZE then
    tag, $stored_config, $stored_state = struct.unpack('<I3$D_CONFIG$D_STATE', record)
  else   -- there are reservations, or it is no such record
    $read_reserved
  end
  if tag ~= $TAG_NUMBER   -- $TAG:
    or stored_$each_config ~= $each_config
    or not (stored_$each_state >= 0 and stored_$each_state % 1 == 0 and stored_$each_state <= $EXACT)
  then
    return redis.error_reply(NEEDS_SLOW_PATH)
  end
  old_$each_state = stored_$each_state
  $each_state = stored_$each_state
  $if_given
  $check_clock
  $end_given
  $settle
  $lower
else
  local wrong
  $wrong
  if wrong
    or not ($each_config >= 1 and $each_config % 1 == 0 and $each_config <= $EXACT)
  then
    return redis.error_reply(WRONG_CALL)
  end
  $if_given
  $check_clock
  $end_given
  $new
end

-- @read_reserved
if #record > $RECORD_SIZE and string.byte(record, 3) == 124 then   -- |
  $read_remembered
elseif id then
  return redis.error_reply(NEEDS_SLOW_PATH)
else
  $read_lowest
end

-- @read_lowest
$if_identity
if #record ~= $RECORD_SIZE + 16 then return redis.error_reply(NEEDS_SLOW_PATH) end
tag, $stored_config, $stored_state = struct.unpack('<I3$D_CONFIG$D_STATE', record)
$end_identity
$if_no_identity
if #record < $RECORD_SIZE + 40 then return redis.error_reply(NEEDS_SLOW_PATH) end
tag, $stored_config, $stored_state, low = struct.unpack('<I3$D_CONFIG$D_STATEd', record)
if not (low >= 0 and low % 1 == 0 and low <= $EXACT) then return redis.error_reply(NEEDS_SLOW_PATH) end
$end_no_identity

-- @lower
$if_no_identity
if low and $counted < low then low = $counted end
$end_no_identity

-- @pack_state
$if_identity
new_state = struct.pack('<$D_STATE', $state)
$end_identity
$if_no_identity
if low then
  new_state = struct.pack('<$D_STATEd', $state, low)
else
  new_state = struct.pack('<$D_STATE', $state)
end
$end_no_identity

-- @charge
-- Each cost that fits, as if sent singly; the costs end with the call's first `size` bytes.
$left
while true do
  if not (cost >= 1 and cost % 1 == 0) then return redis.error_reply(WRONG_CALL) end
  $wait
  if cost <= left then
    changed = true
    left = left - cost
    $counted = $counted + $COST
  end
  if at > size then break end
  cost, at = struct.unpack('<d', call, at)
end
if not changed then return reply end

-- @check_clock
local off
$off
if off then return redis.error_reply(NEEDS_SLOW_PATH) end

-- @reply
$stored_reply

-- @stored_reply
if record then
  reply = struct.pack('<d$D_STATE', now, $old_state)
else
  reply = struct.pack('<d', now)
end

-- @span

-- @wait

-- @is_kept
-- Whether a record of this state is kept until `keep` tells; nothing charged, or more than fits, is for the slow path.
$if_identity
is_kept = $counted > 0
$end_identity
$if_no_identity
is_kept = $counted > 0 and $counted <= $capacity * $unit
$end_no_identity

$about
--
-- Configuration  $config: $config_words
-- State          $state: $state_words
-- KEYS[2]  the key of the reservation, as `limiter_reserve` takes it
-- ARGV[1] is $config, the estimate, for how long it can be settled (us), and the generation that it
-- begins where the record has none. The records are as `reservations` describes.
-- The reply is the time and the state before, settled.
--
$fast_call
-- A key of another type is none of these records.
local record = redis.pcall('GET', key)
if size ~= $CALL_SIZE + 16 then return redis.error_reply(WRONG_CALL) end
local $config, cost, hold, began = struct.unpack('<$D_CONFIGddd', call)
if not (cost >= 1 and cost % 1 == 0 and hold >= 1 and hold % 1 == 0 and hold <= $LONGEST
  and began >= 1 and began % 1 == 0 and began <= $EXACT) then
  return redis.error_reply(WRONG_CALL)
end
local generation, made, total, count
$read_counter
local left
$left
local reply = struct.pack('<d$D_STATE', now, $state)
if cost > left then
  -- Unless it was reserved before.
  if redis.pcall('GET', KEYS[2]) then return redis.error_reply(NEEDS_SLOW_PATH) end
  return reply
end
if not made then generation, made, total, count = began, 0, 0, 0 end
made = made + 1
local before = $counted
$counted = before + $COST
local identity, behind = 0, nil
$add_reservation
-- Nothing is written yet where it was reserved before.
local reserved = struct.pack('<I3ddddd$D_CONFIGddd$D_STATE', $RESERVATION_NUMBER, 0, now, now + hold, cost, $LETTER_NUMBER, $config,
  generation, made, identity, $reserved_state)
if not redis.call('SET', KEYS[2], reserved, 'NX', 'PX', math.ceil(hold / 500) + skew) then
  return redis.error_reply(NEEDS_SLOW_PATH)
end
local till, span
$store_counter

-- @read_reserved
$read_reservations

-- @read_reservations
$if_identity
if #record ~= $RECORD_SIZE + 16 then return redis.error_reply(NEEDS_SLOW_PATH) end
tag, $stored_config, $stored_state, generation, made = struct.unpack('<I3$D_CONFIG$D_STATEdd', record)
$end_identity
$if_no_identity
if #record < $RECORD_SIZE + 40 then return redis.error_reply(NEEDS_SLOW_PATH) end
tag, $stored_config, $stored_state, low, generation, made, total, count = struct.unpack('<I3$D_CONFIG$D_STATEddddd', record)
if not (low >= 0 and low % 1 == 0 and low <= $EXACT) or #record ~= $RECORD_SIZE + 40 + 24 * count then
  return redis.error_reply(NEEDS_SLOW_PATH)
end
$end_no_identity

-- @add_reservation
$if_identity
$identity
behind = struct.pack('<$D_STATEdd', $state, generation, made)
$end_identity
$if_no_identity
$fold_steps
local added = $counted - total
if at == 0 then
  at, steps = 1, struct.pack('<ddd', made, 1, added)
elseif open == 0 then
  steps = steps .. struct.pack('<ddd', made, 1, height + added)
else
  steps, at = steps .. struct.pack('<dddddd', first, open, height, made, 1, added), at + 1
  if at > $EXACT_RESERVATIONS then
    $merge_steps
    steps, at = merge_steps(steps), at - 1
  end
end
behind = struct.pack('<$D_STATEddddd', $state, $counted, generation, made, $counted, at) .. steps
$end_no_identity

-- @fold_steps
-- As `steps` describes: what is above the lowest level is taken from the latest ones. The last that is left is not
-- among `steps`.
local at, moved, above, first, open, height = count, 0, low and low < total and total - low or 0, nil, nil, nil
while at > 0 do
  first, open, height = struct.unpack('<ddd', record, $RECORD_SIZE + 17 + 24 * at)
  if height > above then break end
  at, moved, above, total = at - 1, moved + open, above - height, total - height
end
local steps = ''
if at > 0 then
  open, height, total = open + moved, height - above, total - above
  steps = string.sub(record, $RECORD_SIZE + 41, $RECORD_SIZE + 16 + 24 * at)
end

-- @store_counter
-- The record is kept until `till` (us). Where the old one was kept until then, too, its expiry stays.
$span
$keep
if record and old_$counted > 0 then
  local new_till = till
  $each_state = old_$each_state
  $keep
  if till == new_till then
    if #record <= $PLACE + #behind then
      redis.call('SETRANGE', key, '$PLACE', behind)
    else
      redis.call('SET', key, '$TAG:' .. string.sub(call, 1, $CONFIG_SIZE) .. behind, 'KEEPTTL')
    end
    return reply
  end
  till = new_till
end
redis.call('SET', key, '$TAG:' .. string.sub(call, 1, $CONFIG_SIZE) .. behind, 'PX', math.ceil((till - now) / 1000) + skew)
return reply

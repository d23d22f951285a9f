-- Requests with an id, as `requests` describes them, in the packed record of a counter by itself, where nothing else stands
-- behind its state: $TAG| in the place of $TAG:, and behind the state until when any is remembered, and which of the
-- requests the next one replaces; then for each the 16 bytes of its id, until when it is remembered (us), its cost, and
-- the reply that it got, which is the time and $state before it was charged.

-- @read_id
local bar
bar, id, remember = struct.unpack('<c1c16d', call, $CALL_SIZE + 1)
if bar ~= '|' or not (remember >= 1 and remember % 1 == 0 and remember <= $LONGEST) then
  return redis.error_reply(WRONG_CALL)
end
size = $CALL_SIZE

-- @read_remembered
if #record < $RECORD_SIZE + 16 then return redis.error_reply(NEEDS_SLOW_PATH) end
tag, $stored_config, $stored_state, kept, next_one = struct.unpack('<I3$D_CONFIG$D_STATEdd', record)
local count = (#record - $RECORD_SIZE - 16) / $REQUEST_SIZE
if tag ~= $REMEMBERING_NUMBER or not (kept >= 0 and kept % 1 == 0 and kept <= $EXACT)
  or not (next_one == count or count == $REMEMBERED_REQUESTS and next_one >= 0 and next_one % 1 == 0)
  or not (count >= 1 and next_one < $REMEMBERED_REQUESTS)
then
  return redis.error_reply(NEEDS_SLOW_PATH)
end
tag, are_known = $TAG_NUMBER, now < kept

-- @repeated
local place, known = string.find(record, id, $RECORD_SIZE + 17, true), nil
while place do
  if (place - $RECORD_SIZE - 17) % $REQUEST_SIZE == 0 and now < struct.unpack('<d', record, place + 16) then
    -- Two of one id are known where the clock was set back.
    if known then return redis.error_reply(NEEDS_SLOW_PATH) end
    known = place
  end
  place = string.find(record, id, place + 1, true)
end
if known then
  local charged, at, $old_state = struct.unpack('<dd$D_STATE', record, known + 24)
  -- Another cost is refused there, and what is damaged.
  if charged ~= cost or not (at >= 0 and at % 1 == 0 and at <= $EXACT)
    or not (old_$each_state >= 0 and old_$each_state % 1 == 0 and old_$each_state <= $EXACT)
  then
    return redis.error_reply(NEEDS_SLOW_PATH)
  end
  return string.sub(record, known + 32, known + $REQUEST_SIZE - 1), true   -- which is for a call of several keys
end

-- @told
$if_given
$reply
$end_given
$if_no_given
if not record then
  old_$each_state = $each_state
end
reply = struct.pack('<d$D_STATE', now, $old_state)
$end_no_given

-- @remember
-- Once none is remembered, all are dropped.
local request, span, till, old_till, is_kept = '', nil, nil, nil, nil
local place, till_now = are_known and next_one or 0, kept or 0
kept, next_one = are_known and kept or 0, place
if id then
  till, next_one = now + remember, (place + 1) % $REMEMBERED_REQUESTS
  request = id .. struct.pack('<dd', till, cost) .. reply
  -- For longer than it has to be, so that the expiry need not be set anew for each.
  if till > kept then kept = till + math.floor(remember / 2) end
end
if kept > 0 then
  new_state = struct.pack('<$D_STATEdd', $state, kept, next_one)
else
  new_state = struct.pack('<$D_STATE', $state)
end
$span
$keep
local new_till = math.max(till, kept)
if record then
  $each_state = old_$each_state
  $is_kept
  if is_kept then
    $keep
    old_till = math.max(till, till_now)
  end
end
if are_known then
  redis.call('SETRANGE', key, '$PLACE', new_state)
  if id then redis.call('SETRANGE', key, $RECORD_SIZE + 16 + $REQUEST_SIZE * place, request) end
  if new_till ~= old_till then redis.call('PEXPIRE', key, math.ceil((new_till - now) / 1000) + skew) end
  return reply
end
record = (kept > 0 and '$TAG|' or '$TAG:') .. string.sub(call, 1, $CONFIG_SIZE) .. new_state .. request
if new_till == old_till then
  redis.call('SET', key, record, 'KEEPTTL')
else
  redis.call('SET', key, record, 'PX', math.ceil((new_till - now) / 1000) + skew)
end
return reply

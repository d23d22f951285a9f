$about
--
-- Configuration  $config: $config_words
-- State          $state: $state_words
-- KEYS[2]  the key of the reservation, as `limiter_reserve` takes it
-- ARGV[1] is $config, and the true cost. The records are as `reservations` describes; the
-- slow path settles what is charged on top, what was settled before, and what the record does not know.
-- The reply is the time, 1, how much was given back, 0, and the state after it.
--
$fast_call
-- A key of another type is none of these records.
local record, reserved = redis.pcall('GETEX', key), redis.pcall('GET', KEYS[2])   -- GETEX: see the prelude
if size ~= $CALL_SIZE then return redis.error_reply(WRONG_CALL) end
local $config, actual = struct.unpack('<$D_CONFIGd', call)
if not (actual >= 0 and actual % 1 == 0) then return redis.error_reply(WRONG_CALL) end
if not record or not reserved or #reserved ~= $RESERVED_SIZE then
  return redis.error_reply(NEEDS_SLOW_PATH)
end
local kind, settled, since, last_time, estimate, letter, $reserved_config, own, number, place =
  struct.unpack('<I3ddddd$D_CONFIGddd', reserved)
if kind ~= $RESERVATION_NUMBER or settled ~= 0 or letter ~= $LETTER_NUMBER
  or reserved_$each_config ~= $each_config
  or not (now < last_time and actual <= estimate)
then
  return redis.error_reply(NEEDS_SLOW_PATH)
end
local generation, made, total, count
$read_counter
if generation ~= own then return redis.error_reply(NEEDS_SLOW_PATH) end
local cost, given, closed, behind, identity, till, span = estimate - actual, 0, nil, nil, nil, nil, nil
$if_lease
cost = estimate   -- of places nothing stays charged
$end_lease
$give_back
$if_no_lease
-- How long such a record is kept is for the slow path to say.
if $counted == 0 then return redis.error_reply(NEEDS_SLOW_PATH) end
$end_no_lease
given = math.ceil(given / $unit)
local reply = struct.pack('<dddd$D_STATE', now, 1, given, 0, $state)
redis.call('SETRANGE', KEYS[2], '3', struct.pack('<ddddd$D_CONFIGddd$D_STATE', 1, now, 2 * last_time - since, actual, $LETTER_NUMBER, $config,
  estimate, given, 0, $state))
if not closed then return reply end
$if_lease
if $counted == 0 then
  $keep
  local ttl = math.max(1, math.ceil((till - now) / 1000)) + skew
  redis.call('SET', key, '$TAG:' .. string.sub(call, 1, $CONFIG_SIZE) .. behind, 'PX', ttl)
  return reply
end
$end_lease
$store_counter

-- @read_reserved
$read_reservations

-- @give_back
$if_identity
$identity
if identity == place then
  given = math.min(cost, $counted)
  $counted = $counted - given
end
$if_previous
if identity == place + 1 then
  given = math.min(cost, $previous)
  $previous = $previous - given
end
$end_previous
closed = given > 0
behind = struct.pack('<$D_STATEdd', $state, generation, made)
$end_identity
$if_no_identity
-- As `steps` describes: what is above the lowest level is taken from the latest ones, and then what was not used from those
-- up to this reservation's.
local left
$left
-- More is charged than fits.
if left < 0 then return redis.error_reply(NEEDS_SLOW_PATH) end
$fold_steps
cost = $COST
if at > 0 and first <= number and cost < height and open > 0 then   -- it is one of the latest step
  total, given, closed, steps = total - cost, cost, true, steps .. struct.pack('<ddd', first, open - 1, height - cost)
else
  $take_steps
  $settle_step
  if at > 0 then steps = steps .. struct.pack('<ddd', first, open, height) end
  local rest
  steps, rest, closed = settle_step(steps, number, cost)
  given, at = cost - rest, #steps / 24
  total = total - given
end
$counted = $counted - given
behind = struct.pack('<$D_STATEddddd', $state, $counted, generation, made, total, at) .. steps
$end_no_identity

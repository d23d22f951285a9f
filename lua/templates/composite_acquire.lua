-- Several counters together. A request is charged to all of them or to none.
--
-- ARGV[1] is the letters of their tags as one number, the first in its lowest byte; the configuration of each; and one
-- or more costs. The record is $COMPOSITE: and the same up to the costs, then the state of each, as in the script of the counter
-- alone. The reply is the time, and the states before, settled.
--
$fast_call
-- A key of another type is none of these records.
local record = redis.pcall('GET', key)
if size == 0 or size % 8 ~= 0 then return redis.error_reply(WRONG_CALL) end
local letters = struct.unpack('<d', call)
local kinds, configs, numbers = {}, 0, 0
while letters ~= 0 do
  local kind = letters % 256
  $for_each_algorithm
  $elseif kind == $LETTER then   -- $TAG
    configs, numbers = configs + $CONFIGS, numbers + $STATES
  $end
  else
    return redis.error_reply(WRONG_CALL)
  end
  kinds[#kinds + 1] = kind
  letters = (letters - kind) / 256
end
local head = 8 + 8 * configs
if size <= head or #kinds < 2 or #kinds > $MAX_LIMITS then return redis.error_reply(WRONG_CALL) end
local config = {struct.unpack('<' .. string.rep('d', configs), call, 9)}
local limits, pattern = '$COMPOSITE:' .. string.sub(call, 1, head), '<' .. string.rep('d', numbers)
local state = {}
if record then
  if #record ~= 3 + head + 8 * numbers or string.sub(record, 1, 3 + head) ~= limits then
    return redis.error_reply(NEEDS_SLOW_PATH)
  end
  state = {struct.unpack(pattern, record, 4 + head)}
  for i = 1, numbers do
    local number = state[i]
    if not (number >= 0 and number % 1 == 0 and number <= $EXACT) then return redis.error_reply(NEEDS_SLOW_PATH) end
  end
else
  for i = 1, configs do
    local number = config[i]
    if not (number >= 1 and number % 1 == 0 and number <= $EXACT) then return redis.error_reply(WRONG_CALL) end
  end
end

-- What counts of each now, and the largest cost that all of them admit.
local c, s, least = 1, 1, $EXACT
for i = 1, #kinds do
  local kind, wrong, left = kinds[i]
  $for_each_algorithm
  $elseif kind == $LETTER then   -- $TAG
    local $config = $config_at
    local $state = $state_at
    $wrong
    if not record then
      $new
    end
    $settle
    $left
    $state_at = $state
    c, s = c + $CONFIGS, s + $STATES
  $end
  end
  if wrong then return redis.error_reply(WRONG_CALL) end
  if left < least then least = left end
end
local reply = struct.pack('<d', now) .. struct.pack(pattern, unpack(state))

local charged, at = 0, 1 + head
repeat
  local cost
  cost, at = struct.unpack('<d', call, at)
  if not (cost >= 1 and cost % 1 == 0) then return redis.error_reply(WRONG_CALL) end
  if cost <= least then charged, least = charged + cost, least - cost end
until at > size

-- Each is charged, and the record kept until all are as if never used.
if charged > 0 then
  local cost, keep = charged, 0
  c, s = 1, 1
  for i = 1, #kinds do
    local kind, till = kinds[i]
    $for_each_algorithm
    $elseif kind == $LETTER then   -- $TAG
      local $config = $config_at
      local $state = $state_at
      $counted = $counted + $COST
      $counted_at = $counted
      $fresh_at
      c, s = c + $CONFIGS, s + $STATES
    $end
    end
    if till > keep then keep = till end
  end
  record = limits .. struct.pack(pattern, unpack(state))
  redis.call('SET', key, record, 'PX', math.ceil((keep - now) / 1000) + skew)
end
return reply

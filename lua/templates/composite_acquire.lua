-- Several counters together. A request is charged to all of them or to none.
--
-- ARGV[1] is the letters of their tags as one number, the first in its lowest byte; the configuration of each; and one
-- or more costs, or 0 and one cost for each part, not all 0. The record is $COMPOSITE: and the same up to the costs, then the state of each, as in the script of the counter
-- alone. The reply is the time, and the states before, settled.
--
$fast_call
-- A key of another type is none of these records.
local record = redis.pcall('GET', key)
local sub, unpack = string.sub, unpack
if size == 0 or size % 8 ~= 0 then return redis.error_reply(WRONG_CALL) end
-- The tag of a record, the letters, the configurations, and the states that are stored behind them.
local all
if record then
  if #record % 8 ~= 3 then return redis.error_reply(NEEDS_SLOW_PATH) end
  all = {struct.unpack(sub('<I3$DOUBLES', 1, 3 + (#record - 3) / 8), record)}
  if all[1] ~= $COMPOSITE_NUMBER then return redis.error_reply(NEEDS_SLOW_PATH) end
else
  all = {0, struct.unpack('<d', call)}
end
local letters, configs, numbers, count = all[2], 0, 0, 0
local rest = letters
while rest ~= 0 do
  local kind = rest % 256
  $for_each_plain
  $elseif kind == $LETTER then   -- $TAG
    configs, numbers = configs + $CONFIGS, numbers + $STATES
  $end
  else
    return redis.error_reply(record and NEEDS_SLOW_PATH or WRONG_CALL)
  end
  rest, count = (rest - kind) / 256, count + 1
end
local head = 8 + 8 * configs
if size <= head or count < 2 or count > $MAX_LIMITS then
  return redis.error_reply(record and NEEDS_SLOW_PATH or WRONG_CALL)
end
local DOUBLES = '<$DOUBLES'   -- of which the first few tell the form of as many numbers
if record then
  if #record ~= 3 + head + 8 * numbers or string.find(record, sub(call, 1, head), 4, true) ~= 4 then
    return redis.error_reply(NEEDS_SLOW_PATH)
  end
else
  all = {0, struct.unpack(sub(DOUBLES, 1, 2 + configs), call)}
  for i = 3, 2 + configs do
    local number = all[i]
    if not (number >= 1 and number % 1 == 0 and number <= $EXACT) then return redis.error_reply(WRONG_CALL) end
  end
end

local each   -- the cost of each, of a request with one for each
if size == head + 8 + 8 * count and struct.unpack('<d', call, head + 1) == 0 then
  each = {struct.unpack(sub(DOUBLES, 1, 1 + count), call, head + 9)}
  local most = 0
  for i = 1, count do
    local cost = each[i]
    if not (cost >= 0 and cost % 1 == 0) then return redis.error_reply(WRONG_CALL) end
    if cost > most then most = cost end
  end
  if most == 0 then return redis.error_reply(WRONG_CALL) end
end

-- What counts of each now, and the largest cost that all of them admit; of a cost for each, what is left of the least.
local state = {0, 0, 0, 0}   -- the new one: of two limits four numbers or more
local c, o, s, p, least = 3, 3 + configs, 1, 1, $EXACT
rest = letters
while rest ~= 0 do
  local kind, wrong, left = rest % 256
  $for_each_plain
  $elseif kind == $LETTER then   -- $TAG
    local $config = $config_at
    local $state = $old_at
    if not record then
      $wrong
      if wrong then return redis.error_reply(WRONG_CALL) end
      $new
    elseif not ($each_state >= 0 and $each_state % 1 == 0 and $each_state <= $EXACT) then
      return redis.error_reply(NEEDS_SLOW_PATH)
    end
    $settle
    $left
    $state_at = $state
    c, o, s = c + $CONFIGS, o + $STATES, s + $STATES
  $end
  end
  if each then
    -- What is not asked for anything fits also where more than all is used.
    left, p = each[p] > 0 and left - each[p] or 0, p + 1
  end
  if left < least then least = left end
  rest = (rest - kind) / 256
end
local reply = struct.pack(numbers == 4 and '<ddddd' or sub(DOUBLES, 1, 2 + numbers), now, unpack(state))

local charged, at = 0, 1 + head
if each then
  if least >= 0 then charged = 1 end
  at = size + 1
end
while at <= size do
  local cost
  cost, at = struct.unpack('<d', call, at)
  if not (cost >= 1 and cost % 1 == 0) then return redis.error_reply(WRONG_CALL) end
  if cost <= least then charged, least = charged + cost, least - cost end
end
if charged == 0 then return reply end

-- Each is charged. The record is kept for as long as any of them, and its expiry stays where the old one was kept so long.
local cost, new_till, old_till = charged, 0, record and 0
c, o, s, p, rest = 3, 3 + configs, 1, 1, letters
while rest ~= 0 do
  local kind, till, span, is_kept = rest % 256
  if each then cost, p = each[p], p + 1 end
  $for_each_plain
  $elseif kind == $LETTER then   -- $TAG
    local $config = $config_at
    local $state = $state_at
    $counted = $counted + $COST
    $counted_at = $counted
    $span
    $keep
    if cost == 0 then
      -- Its end may be another than that of what was charged.
      $is_kept
      if not is_kept then old_till = nil end
      is_kept = nil
      if $counted == 0 then
        $unused
      end
    end
    if till > new_till then new_till = till end
    $state = $old_at
    if old_till then
      $is_kept
      if is_kept then
        $keep
      end
    end
    c, o, s = c + $CONFIGS, o + $STATES, s + $STATES
  $end
  end
  if not is_kept then
    old_till = nil
  elseif till > old_till then
    old_till = till
  end
  rest = (rest - kind) / 256
end
local new_state = struct.pack(numbers == 4 and '<dddd' or sub(DOUBLES, 1, 1 + numbers), unpack(state))
if new_till == old_till then
  -- Where it begins: to print a number costs as much as to read the record.
  local place = configs == 5 and '51' or configs == 6 and '59' or configs == 4 and '43' or 3 + head
  redis.call('SETRANGE', key, place, new_state)
else
  record = '$COMPOSITE:' .. sub(call, 1, head) .. new_state
  redis.call('SET', key, record, 'PX', math.ceil((new_till - now) / 1000) + skew)
end
return reply

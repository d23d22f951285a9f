-- Several counters together. A request is charged to all of them or to none.
--
-- ARGV[1] is the letters of their tags as one number, of five bits for each, from 1 for A, the first in the lowest; the
-- configuration of each; and one or more costs, or 0 and one cost for each part, not all 0. The record is $COMPOSITE: and
-- the same up to the costs, then the state of each, as in the script of the counter alone. The reply is the time, and the
-- states before, settled.
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
  local kind = rest % 32
  $for_each_plain
  $elseif kind == $LETTER_NUMBER then   -- $TAG
    configs, numbers = configs + $CONFIGS, numbers + $STATES
  $end
  else
    return redis.error_reply(record and NEEDS_SLOW_PATH or WRONG_CALL)
  end
  rest, count = (rest - kind) / 32, count + 1
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

-- What counts of each now, and the largest cost that all of them admit.
local state = {0, 0, 0, 0}   -- the new one: of two limits four numbers or more
local c, o, s, least = 3, 3 + configs, 1, $EXACT
rest = letters
while rest ~= 0 do
  local kind, wrong, left = rest % 32
  $for_each_plain
  $elseif kind == $LETTER_NUMBER then   -- $TAG
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
  if left < least then least = left end
  rest = (rest - kind) / 32
end
local reply = struct.pack(numbers == 4 and '<ddddd' or sub(DOUBLES, 1, 2 + numbers), now, unpack(state))

local cost, at = 0, 1 + head   -- what is charged to all
local fewest                   -- the least that is charged to one, where the request has a cost for each
if size > head + 8 and struct.unpack('<d', call, at) == 0 then
  $charge_each
else
  repeat
    local one
    one, at = struct.unpack('<d', call, at)
    if not (one >= 1 and one % 1 == 0) then return redis.error_reply(WRONG_CALL) end
    if one <= least then cost, least = cost + one, least - one end
  until at > size
  if cost == 0 then return reply end
end

-- Each is charged. The record is kept for as long as any of them, and its expiry stays where the old one was kept so long.
local new_till, old_till = 0, record and 0
c, o, s, rest = 3, 3 + configs, 1, letters
while rest ~= 0 do
  local kind, till, span, is_kept = rest % 32
  $for_each_plain
  $elseif kind == $LETTER_NUMBER then   -- $TAG
    local $config = $config_at
    local $state = $state_at
    $counted = $counted + $COST
    $counted_at = $counted
    $span
    $keep
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
  rest = (rest - kind) / 32
end
if fewest == 0 then
  $keep_each
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

-- @charge_each
-- Behind a 0 stands a cost for each, not all 0: all are charged, or none where one does not fit.
if size ~= head + 8 + 8 * count then return redis.error_reply(WRONG_CALL) end
local each = {struct.unpack(sub(DOUBLES, 1, 1 + count), call, at + 8)}
local p, most, is_denied = 1, 0, nil
fewest, c, s, rest = $EXACT, 3, 1, letters
while rest ~= 0 do
  local kind, cost, left = rest % 32, each[p], nil
  $for_each_plain
  $elseif kind == $LETTER_NUMBER then   -- $TAG
    local $config = $config_at
    local $state = $state_at
    $left
    $counted = $counted + $COST
    $counted_at = $counted
    c, s, p = c + $CONFIGS, s + $STATES, p + 1
  $end
  end
  if not (cost >= 0 and cost % 1 == 0) then return redis.error_reply(WRONG_CALL) end
  -- What is asked for nothing fits also where more than all is used.
  if cost > left and cost > 0 then is_denied = true end
  if cost > most then most = cost end
  if cost < fewest then fewest = cost end
  rest = (rest - kind) / 32
end
if most == 0 then return redis.error_reply(WRONG_CALL) end
if is_denied then return reply end

-- @keep_each
-- What was asked for nothing may be unused, or used by more than fits: it is then kept until another time, and the expiry is
-- set anew.
c, s, new_till, rest = 3, 1, 0, letters
while rest ~= 0 do
  local kind, till, span, is_kept = rest % 32
  $for_each_plain
  $elseif kind == $LETTER_NUMBER then   -- $TAG
    local $config = $config_at
    local $state = $state_at
    $span
    $keep
    if $counted == 0 then
      $unused
    end
    $is_kept
    c, s = c + $CONFIGS, s + $STATES
  $end
  end
  if till > new_till then new_till = till end
  if not is_kept then old_till = nil end
  rest = (rest - kind) / 32
end

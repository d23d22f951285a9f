-- Several counters together. ARGV[1]: the letters of their tags as one number, the first in its lowest byte; the
-- configuration of each; the costs. The record is C1: and the same up to the costs, then the state of each, all as in the
-- machines' parts. A request is charged to all of them or to none. The reply is the time, and the states before, settled.
if size == 0 or size % 8 ~= 0 then return redis.error_reply(WRONG_CALL) end
local letters = struct.unpack('<d', call)
local kinds, configs, numbers = {}, 0, 0
while letters ~= 0 do
  local kind = letters % 256
  if kind == 70 or kind == 83 then   -- F, S
    configs = configs + 2
  elseif kind == 73 or kind == 84 then   -- I, T
    configs = configs + 3
  else
    return redis.error_reply(WRONG_CALL)
  end
  numbers = numbers + (kind == 83 and 3 or 2)
  kinds[#kinds + 1] = kind
  letters = (letters - kind) / 256
end
local head = 8 + 8 * configs
if size <= head or #kinds < 2 or #kinds > 4 then return redis.error_reply(WRONG_CALL) end
local config = {struct.unpack('<' .. string.rep('d', configs), call, 9)}
local limits, pattern = 'C1:' .. string.sub(call, 1, head), '<' .. string.rep('d', numbers)
local state = {}
if record then
  if #record ~= 3 + head + 8 * numbers or string.sub(record, 1, 3 + head) ~= limits then
    return redis.error_reply(NEEDS_SLOW_PATH)
  end
  state = {struct.unpack(pattern, record, 4 + head)}
  for i = 1, numbers do
    local number = state[i]
    if not (number >= 0 and number % 1 == 0 and number < 9007199254740992) then return redis.error_reply(NEEDS_SLOW_PATH) end
  end
else
  for i = 1, configs do
    local number = config[i]
    if not (number >= 1 and number % 1 == 0 and number < 9007199254740992) then return redis.error_reply(WRONG_CALL) end
  end
end

-- What counts of each now, and the largest cost that all of them admit.
local c, s, least = 1, 1, 9007199254740991
for i = 1, #kinds do
  local kind, one, two, left = kinds[i], config[c], config[c + 1], nil
  if kind ~= 84 and two > 2251799813685248 then return redis.error_reply(WRONG_CALL) end   -- a window, an interval
  if kind == 70 then
    local opened, used = state[s] or now, state[s + 1] or 0
    if used == 0 or now >= opened + two then
      used = 0
      if now > opened then opened = now end
    end
    state[s], state[s + 1], left = opened, used, one - used
    c, s = c + 2, s + 2
  elseif kind == 83 then
    local previous, current, last = state[s] or 0, state[s + 1] or 0, state[s + 2] or now
    local start = last - last % two
    if now > last then
      last = now
      if now >= start + 2 * two then
        previous, current = 0, 0
      elseif now >= start + two then
        previous, current = current, 0
      end
    end
    state[s], state[s + 1], state[s + 2], left = previous, current, last, one - current
    if previous > 0 then
      -- The estimate, as in the machine's part.
      local split = (4503599627370496 - 4503599627370496 % two) / two
      local ahead = two - last % two
      local b = previous % split
      local a = (previous - b) / split
      local rest = a * ahead % two
      left = left - (a * ahead - rest) / two * split - math.ceil((split * rest + b * ahead) / two)
    end
    c, s = c + 2, s + 3
  elseif kind == 84 then
    local burst, deficit, last = config[c + 2], state[s] or 0, state[s + 1] or now
    if burst * two >= 9007199254740992 then return redis.error_reply(WRONG_CALL) end
    if now > last then
      -- A refill past 2^53 may round, but stays above every deficit.
      deficit, last = deficit - (now - last) * one, now
      if deficit < 0 then deficit = 0 end
    end
    state[s], state[s + 1], left = deficit, last, burst - math.ceil(deficit / two)
    c, s = c + 3, s + 2
  else
    local deficit, anchor, passed = state[s] or 0, state[s + 1] or now, 0   -- since the anchor, in whole intervals
    if now > anchor then passed = now - anchor - (now - anchor) % two end
    deficit = deficit - passed / two * one
    if deficit > 0 then
      anchor = anchor + passed
    else
      deficit = 0
      if now > anchor then anchor = now end
    end
    state[s], state[s + 1], left = deficit, anchor, config[c + 2] - deficit
    c, s = c + 3, s + 2
  end
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
local keep, kept = 0, -1
if charged > 0 then
  changed, c, s = true, 1, 1
  for i = 1, #kinds do
    local kind, one, two, till = kinds[i], config[c], config[c + 1], nil
    if kind == 70 then
      state[s + 1] = state[s + 1] + charged
      till = state[s] + two
    elseif kind == 83 then
      state[s + 1] = state[s + 1] + charged
      till = state[s + 2] - state[s + 2] % two + 2 * two
    elseif kind == 84 then
      state[s] = state[s] + charged * two
      till = state[s + 1] + math.ceil(state[s] / one)
    else
      state[s] = state[s] + charged
      till = state[s + 1] + math.ceil(state[s] / one) * two
    end
    c, s = c + (kind == 70 and 2 or kind == 83 and 2 or 3), s + (kind == 83 and 3 or 2)
    if till > keep then keep = till end
  end
  record = limits .. struct.pack(pattern, unpack(state))
end

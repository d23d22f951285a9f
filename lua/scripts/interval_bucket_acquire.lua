-- The token bucket with interval refill: amount, interval and burst in ARGV[1], deficit and anchor behind them in the
-- record, as in the machine's part.
if size < 32 or size % 8 ~= 0 then return redis.error_reply(WRONG_CALL) end
local amount, interval, burst, cost, at = struct.unpack('<dddd', call)
local span = math.ceil(burst / amount) * interval   -- it is full again then
local deficit, anchor, kept = 0, now, -1
local reply
if record then
  if #record ~= 43 then return redis.error_reply(OTHER_LIMIT) end
  local tag, a, i, b
  tag, a, i, b, deficit, anchor = struct.unpack('<I3ddddd', record)
  if tag ~= 3813705 or a ~= amount or i ~= interval or b ~= burst   -- I1:
    or not (deficit >= 0 and deficit % 1 == 0 and deficit < 9007199254740992)
    or not (anchor >= 0 and anchor % 1 == 0 and anchor < 9007199254740992) then
    return redis.error_reply(OTHER_LIMIT)
  end
  reply = struct.pack('<ddd', now, deficit, anchor)
  if deficit > 0 and deficit <= burst then
    kept = anchor - anchor % span + 2 * span
    if kept > 9007199254740991 then kept = 9007199254740991 end
  end
  local passed = 0   -- since the anchor, in whole intervals
  if now > anchor then passed = now - anchor - (now - anchor) % interval end
  -- A refill past 2^53 may round, but stays above every deficit.
  deficit = deficit - passed / interval * amount
  if deficit > 0 then
    anchor = anchor + passed
  else
    deficit = 0
    if now > anchor then anchor = now end
  end
else
  if not (amount >= 1 and amount % 1 == 0 and amount < 9007199254740992 and burst >= 1 and burst % 1 == 0
    and burst < 9007199254740992 and interval >= 1 and interval % 1 == 0 and interval <= 2251799813685248) then
    return redis.error_reply(WRONG_CALL)
  end
  reply = struct.pack('<d', now)
end
while true do
  if not (cost >= 1 and cost % 1 == 0) then return redis.error_reply(WRONG_CALL) end
  if cost <= burst - deficit then changed, deficit = true, deficit + cost end
  if at > size then break end
  cost, at = struct.unpack('<d', call, at)
end
local keep = anchor - anchor % span + 2 * span
if keep > 9007199254740991 then keep = 9007199254740991 end
if changed then record = struct.pack('<I3ddddd', 3813705, amount, interval, burst, deficit, anchor) end

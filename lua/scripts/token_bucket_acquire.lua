-- The token bucket: numerator, denominator and burst in ARGV[1], deficit and last behind them in the record, as in the
-- machine's part. The reply is one integer, the deficit now, unless the clock is behind the record.
if size < 32 or size % 8 ~= 0 then return redis.error_reply(WRONG_CALL) end
local rate, unit, burst, cost, at = struct.unpack('<dddd', call)
local full = burst * unit
local span = (full - full % rate) / rate + 1   -- it is full again in less
local deficit, last, kept = 0, now, -1
local reply
if record then
  if #record ~= 43 then return redis.error_reply(OTHER_LIMIT) end
  local tag, r, u, b
  tag, r, u, b, deficit, last = struct.unpack('<I3ddddd', record)
  if tag ~= 3813716 or r ~= rate or u ~= unit or b ~= burst   -- T1:
    or not (deficit >= 0 and deficit % 1 == 0 and deficit < 9007199254740992)
    or not (last >= 0 and last % 1 == 0 and last < 9007199254740992) then
    return redis.error_reply(OTHER_LIMIT)
  end
  if deficit > 0 and deficit <= full then
    kept = last - last % span + 2 * span
    if kept > 9007199254740991 then kept = 9007199254740991 end
  end
  if now >= last then
    -- A refill past 2^53 may round, but stays above every deficit.
    deficit = deficit - (now - last) * rate
    if deficit < 0 then deficit = 0 end
    reply, last = deficit, now
  else
    reply = struct.pack('<ddd', now, deficit, last)
  end
else
  if not (rate >= 1 and rate % 1 == 0 and rate < 9007199254740992 and unit >= 1 and unit % 1 == 0
    and burst >= 1 and burst % 1 == 0 and full < 9007199254740992) then
    return redis.error_reply(WRONG_CALL)
  end
  reply = 0
end
while true do
  if not (cost >= 1 and cost % 1 == 0) then return redis.error_reply(WRONG_CALL) end
  if cost <= burst and cost * unit <= full - deficit then
    changed, deficit = true, deficit + cost * unit
  end
  if at > size then break end
  cost, at = struct.unpack('<d', call, at)
end
local keep = last - last % span + 2 * span
if keep > 9007199254740991 then keep = 9007199254740991 end
if changed then record = struct.pack('<I3ddddd', 3813716, rate, unit, burst, deficit, last) end

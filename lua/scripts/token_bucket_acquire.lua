-- The token bucket: numerator, denominator and burst in ARGV[1], deficit and last behind them in the record, as in the
-- machine's part. The reply is one integer, the deficit now, unless the clock is behind the record.
if size < 32 or size % 8 ~= 0 then return redis.error_reply(WRONG_CALL) end
local rate, unit, burst, cost, at = struct.unpack('<dddd', call)
local full = burst * unit
local deficit, last, held, before = 0, now, 0
local reply
if record then
  if #record ~= 43 then return redis.error_reply(NEEDS_SLOW_PATH) end
  local tag, r, u, b
  tag, r, u, b, held, before = struct.unpack('<I3ddddd', record)
  if tag ~= 3813716 or r ~= rate or u ~= unit or b ~= burst   -- T1:
    or not (held >= 0 and held % 1 == 0 and held < 9007199254740992)
    or not (before >= 0 and before % 1 == 0 and before < 9007199254740992) then
    return redis.error_reply(NEEDS_SLOW_PATH)
  end
  if now >= before then
    -- A refill past 2^53 may round, but stays above every deficit.
    deficit = held - (now - before) * rate
    if deficit < 0 then deficit = 0 end
    reply = deficit
  else
    deficit, last = held, before
    reply = struct.pack('<ddd', now, held, before)
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
if not changed then return reply end
local span = (full - full % rate) / rate + 1   -- it is full again in less
local keep, kept = last - last % span + 2 * span, -1
if keep > 9007199254740991 then keep = 9007199254740991 end
if held > 0 and held <= full then
  kept = before - before % span + 2 * span
  if kept > 9007199254740991 then kept = 9007199254740991 end
end
local kind, place, state = 'T1:', '27', struct.pack('<dd', deficit, last)

-- The token bucket with interval refill: amount, interval and burst in ARGV[1], deficit and anchor behind them in the
-- record, as in the machine's part.
if size < 32 or size % 8 ~= 0 then return redis.error_reply(WRONG_CALL) end
local amount, interval, burst, cost, at = struct.unpack('<dddd', call)
local deficit, anchor, held, before = 0, now, 0
local reply
if record then
  if #record ~= 43 then return redis.error_reply(NEEDS_SLOW_PATH) end
  local tag, a, i, b
  tag, a, i, b, held, before = struct.unpack('<I3ddddd', record)
  if tag ~= 3813705 or a ~= amount or i ~= interval or b ~= burst   -- I1:
    or not (held >= 0 and held % 1 == 0 and held < 9007199254740992)
    or not (before >= 0 and before % 1 == 0 and before < 9007199254740992) then
    return redis.error_reply(NEEDS_SLOW_PATH)
  end
  reply = struct.pack('<ddd', now, held, before)
  local passed = 0   -- since the anchor, in whole intervals
  if now > before then passed = now - before - (now - before) % interval end
  -- A refill past 2^53 may round, but stays above every deficit.
  deficit = held - passed / interval * amount
  if deficit > 0 then
    anchor = before + passed
  else
    deficit = 0
    if before > now then anchor = before end
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
if not changed then return reply end
local span = math.ceil(burst / amount) * interval   -- it is full again then
local keep, kept = anchor - anchor % span + 2 * span, -1
if keep > 9007199254740991 then keep = 9007199254740991 end
if held > 0 and held <= burst then
  kept = before - before % span + 2 * span
  if kept > 9007199254740991 then kept = 9007199254740991 end
end
local kind, place, state = 'I1:', '27', struct.pack('<dd', deficit, anchor)

-- The leaky bucket as a queue: numerator, denominator and queue in ARGV[1], and before the costs the patience (us), the
-- longest that the turn of a request may be away when it is admitted; deficit and last behind the first three in the
-- record, as in the machine's part. The turn of a request is when all that was there before it has drained.
if size < 40 or size % 8 ~= 0 then return redis.error_reply(WRONG_CALL) end
local rate, unit, queue, patience, cost, at = struct.unpack('<ddddd', call)
local full = queue * unit
local deficit, last, held, before = 0, now, 0
local reply
if not (patience >= 0) then return redis.error_reply(WRONG_CALL) end
if record then
  if #record ~= 43 then return redis.error_reply(NEEDS_SLOW_PATH) end
  local tag, r, u, q
  tag, r, u, q, held, before = struct.unpack('<I3ddddd', record)
  if tag ~= 3813713 or r ~= rate or u ~= unit or q ~= queue   -- Q1:
    or not (held >= 0 and held % 1 == 0 and held < 9007199254740992)
    or not (before >= 0 and before % 1 == 0 and before < 9007199254740992) then
    return redis.error_reply(NEEDS_SLOW_PATH)
  end
  reply = struct.pack('<ddd', now, held, before)
  deficit, last = held, before
  if now > last then
    -- What drains past 2^53 may round, but stays above every deficit.
    deficit, last = deficit - (now - last) * rate, now
    if deficit < 0 then deficit = 0 end
  end
else
  if not (rate >= 1 and rate % 1 == 0 and rate < 9007199254740992 and unit >= 1 and unit % 1 == 0
    and queue >= 1 and queue % 1 == 0 and full < 9007199254740992) then
    return redis.error_reply(WRONG_CALL)
  end
  reply = struct.pack('<d', now)
end
while true do
  if not (cost >= 1 and cost % 1 == 0) then return redis.error_reply(WRONG_CALL) end
  if last + math.ceil(deficit / rate) - now <= patience and cost <= queue and cost * unit <= full - deficit then
    changed, deficit = true, deficit + cost * unit
  end
  if at > size then break end
  cost, at = struct.unpack('<d', call, at)
end
if not changed then return reply end
local span = (full - full % rate) / rate + 1   -- it is empty again in less
local keep, kept = last - last % span + 2 * span, -1
if keep > 9007199254740991 then keep = 9007199254740991 end
if held > 0 and held <= full then
  kept = before - before % span + 2 * span
  if kept > 9007199254740991 then kept = 9007199254740991 end
end
local kind, place, state = 'Q1:', '27', struct.pack('<dd', deficit, last)

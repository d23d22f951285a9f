-- The sliding window: limit and window in ARGV[1]; previous, current and last behind them in the record, as in the
-- machine's part, where the estimate is explained.
if size < 24 or size % 8 ~= 0 then return redis.error_reply(WRONG_CALL) end
local limit, window, cost, at = struct.unpack('<ddd', call)
local previous, current, last, kept = 0, 0, now, -1
local reply
if record then
  if #record ~= 43 then return redis.error_reply(NEEDS_SLOW_PATH) end
  local tag, l, w
  tag, l, w, previous, current, last = struct.unpack('<I3ddddd', record)
  if tag ~= 3813715 or l ~= limit or w ~= window   -- S1:
    or not (previous >= 0 and previous % 1 == 0 and previous < 9007199254740992)
    or not (current >= 0 and current % 1 == 0 and current < 9007199254740992)
    or not (last >= 0 and last % 1 == 0 and last < 9007199254740992) then
    return redis.error_reply(NEEDS_SLOW_PATH)
  end
  reply = struct.pack('<dddd', now, previous, current, last)
  local start = last - last % window
  if current > 0 then kept = start + 2 * window end
  if now > last then
    last = now
    if now >= start + 2 * window then
      previous, current = 0, 0
    elseif now >= start + window then
      previous, current = current, 0
    end
  end
else
  if not (limit >= 1 and limit % 1 == 0 and limit < 9007199254740992
    and window >= 1 and window % 1 == 0 and window <= 2251799813685248) then
    return redis.error_reply(WRONG_CALL)
  end
  reply = struct.pack('<d', now)
end
local passed = last % window
local used = current
if previous > 0 then
  local split = (4503599627370496 - 4503599627370496 % window) / window
  local left = window - passed
  local b = previous % split
  local a = (previous - b) / split
  local rest = a * left % window
  local more = split * rest + b * left
  used = current + (a * left - rest) / window * split + math.ceil(more / window)
end
while true do
  if not (cost >= 1 and cost % 1 == 0) then return redis.error_reply(WRONG_CALL) end
  if cost <= limit - used then changed, used, current = true, used + cost, current + cost end
  if at > size then break end
  cost, at = struct.unpack('<d', call, at)
end
if not changed then return reply end
local kind, place, state = 'S1:', '19', struct.pack('<ddd', previous, current, last)
local keep = last - passed + 2 * window

-- The fixed window: limit and window in ARGV[1], opened and used behind them in the record, as in the machine's part.
if size < 24 or size % 8 ~= 0 then return redis.error_reply(WRONG_CALL) end
local limit, window, cost, at = struct.unpack('<ddd', call)
local opened, used, kept = now, 0, -1
local reply
if record then
  if #record ~= 35 then return redis.error_reply(NEEDS_SLOW_PATH) end
  local tag, l, w
  tag, l, w, opened, used = struct.unpack('<I3dddd', record)
  if tag ~= 3813702 or l ~= limit or w ~= window   -- F1:
    or not (opened >= 0 and opened % 1 == 0 and opened < 9007199254740992)
    or not (used >= 0 and used % 1 == 0 and used < 9007199254740992) then
    return redis.error_reply(NEEDS_SLOW_PATH)
  end
  reply = struct.pack('<ddd', now, opened, used)
  if used > 0 then kept = opened + window end
  if now >= kept then
    used = 0
    if now > opened then opened = now end
  end
else
  if not (limit >= 1 and limit % 1 == 0 and limit < 9007199254740992
    and window >= 1 and window % 1 == 0 and window <= 2251799813685248) then
    return redis.error_reply(WRONG_CALL)
  end
  reply = struct.pack('<d', now)
end
while true do
  if not (cost >= 1 and cost % 1 == 0) then return redis.error_reply(WRONG_CALL) end
  if cost <= limit - used then changed, used = true, used + cost end
  if at > size then break end
  cost, at = struct.unpack('<d', call, at)
end
if not changed then return reply end
local kind, place, state = 'F1:', '19', struct.pack('<dd', opened, used)
local keep = opened + window

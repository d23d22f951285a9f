-- Reads a value for the holder of a fencing token, unless a newer one was seen, or for anybody. GET, and
-- SET where the token is newer than all before.
--
-- ARGV[3]  the fencing token, or empty for none
-- ARGV[4]  for how long value and token are kept (us); empty without a token
-- Reply    {0, now, 1} and, where there is a value, when it is over (us), how many bytes it has and these, six
--          in a number, the first one the highest; {0, now, 0, newest} refused
$fenced_record
local mine
if ARGV[3] ~= '' then
  local wrong = wrong_fence(3)
  if wrong then return wrong end
  mine = tonumber(ARGV[3])
end
local refused = read_fenced()
if refused then return refused end
if mine and mine < token then return {0, now, STALE, token} end
if mine and mine > token then store_fenced(mine, tonumber(ARGV[4])) end

local reply = {0, now, ACCEPTED}
if not value then return reply end
reply[4], reply[5] = till, #value
for first = 1, #value, 6 do
  local packed = 0
  for at = first, math.min(first + 5, #value) do packed = packed * 256 + string.byte(value, at) end
  reply[#reply + 1] = packed
end
return reply

-- Reads a value for the holder of a fencing token, unless a newer one was seen, or for anybody. GETRANGE
-- of the head and of the value, and EXISTS where there is none; SET where the token is newer than all before.
--
-- ARGV[3]  the fencing token, or empty for none
-- ARGV[4]  for how long value and token are kept (us); empty without a token
-- Reply    {0, now, 1} and, where there is a value, when it is over (us), and it as a string;
--          {0, now, 0, newest} refused
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
local value = read_value()
if mine and mine > token then store_fenced(mine, tonumber(ARGV[4]), value) end
if not value then return {0, now, ACCEPTED} end
return {0, now, ACCEPTED, till, value}

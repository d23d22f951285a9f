-- Writes or removes a value for the holder of a fencing token, unless a newer one was seen. GETRANGE, and EXISTS
-- where there is none; SET where that was done, and before it PEXPIRE where the value is removed.
--
-- ARGV[3]  the fencing token
-- ARGV[4]  for how long value and token are kept (us)
-- ARGV[5]  the value, any bytes; none removes it
-- Reply    {0, now, 1} done; {0, now, 0, newest} refused
$fenced_record
local wrong = wrong_fence(3)
if wrong then return wrong end
local refused = read_fenced()
if refused then return refused end
local mine = tonumber(ARGV[3])
if mine < token then return {0, now, STALE, token} end
-- So that a value can be removed where the memory is full: see the prelude. The expiry is set anew right after it.
if not ARGV[5] then redis.call('PEXPIRE', key, ttl_ms(EXACT)) end
store_fenced(mine, tonumber(ARGV[4]), ARGV[5])
return {0, now, ACCEPTED}

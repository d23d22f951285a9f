-- The lock of GETSET times, as it was written before SET took NX and PX.
-- KEYS[1] the lock; ARGV the client's time (ms), lease (ms); replies whether it was taken.
local ends = redis.call('GET', KEYS[1])
if ends and tonumber(ends) > tonumber(ARGV[1]) then return 0 end   -- the bug: by the clock of whoever asks
redis.call('SET', KEYS[1], string.format('%.0f', ARGV[1] + ARGV[2]))
return 1

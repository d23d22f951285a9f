-- A fixed window as it is commonly written: one counter that expires. Correct as it stands; the suite breaks it.
--
-- KEYS[1]  the counter
-- ARGV     limit, (unused), window (ms), (unused), cost
-- Reply    {admitted (0 or 1), remaining}
local limit, window = tonumber(ARGV[1]), tonumber(ARGV[3])
local used = redis.call('INCRBY', KEYS[1], ARGV[5])
-- A key lives through the millisecond at which it expires.
if used == tonumber(ARGV[5]) then redis.call('PEXPIRE', KEYS[1], window - 1) end
if used > limit then return {0, 0} end
return {1, limit - used}

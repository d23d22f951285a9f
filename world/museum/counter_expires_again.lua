-- A counter per window, as blogs have it.
-- KEYS[1] the counter; ARGV limit, window (s); replies whether it is admitted, and what is left.
local limit = tonumber(ARGV[1])
local used = redis.call('INCR', KEYS[1])
redis.call('EXPIRE', KEYS[1], ARGV[2])   -- the bug: each hit puts the end of the window off
if used > limit then return {0, 0} end
return {1, limit - used}

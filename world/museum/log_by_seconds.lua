-- A sliding log as in sockudo, which does the same in commands.
-- KEYS[1] the log; ARGV limit, window (s), now (s); replies whether it is admitted, and what is left.
local limit, window, now = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, now - window)
local used = redis.call('ZCARD', KEYS[1])
if used >= limit then return {0, 0} end
redis.call('ZADD', KEYS[1], now, ARGV[3])   -- the bug: all of a second are one member
redis.call('EXPIRE', KEYS[1], window)
return {1, limit - used - 1}

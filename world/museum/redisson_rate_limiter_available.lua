-- How many permits are left in Redisson's RRateLimiter, as it was in 4.6.
-- KEYS what is left, and the permits by time; ARGV rate, interval (ms), now (ms); replies what is left.
local rate, interval, now = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local left = tonumber(redis.call('GET', KEYS[1])) or rate
-- The bug: what was given back is still among the permits, and comes back once more.
left = left + redis.call('ZREMRANGEBYSCORE', KEYS[2], 0, now - interval)
redis.call('SET', KEYS[1], left)
return left

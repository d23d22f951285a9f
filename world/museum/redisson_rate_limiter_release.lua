-- How permits are given back to Redisson's RRateLimiter, as it was in 4.6.
-- KEYS[1] what is left; ARGV rate, permits; replies how many came back.
local rate = tonumber(ARGV[1])
local left = tonumber(redis.call('GET', KEYS[1])) or rate
local after = math.min(rate, left + ARGV[2])   -- and the log of permits stays as it is
redis.call('SET', KEYS[1], after)
return after - left

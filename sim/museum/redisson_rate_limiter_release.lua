-- release of Redisson's RRateLimiter, as it was in 4.6.
-- KEYS what is left; ARGV rate, permits; replies what is left.
local current = redis.call('GET', KEYS[1])
if current == false then return tonumber(ARGV[1]) end
local value = math.min(tonumber(ARGV[1]), tonumber(current) + tonumber(ARGV[2]))   -- the log is left as it is
redis.call('SET', KEYS[1], value)
return value

-- availablePermits of Redisson's RRateLimiter, as it was in 4.6.
-- KEYS what is left, and the permits by time; ARGV rate, interval (ms), now (ms); replies what is left.
local value_name, permits_name = KEYS[1], KEYS[2]
local current = redis.call('GET', value_name)
if current == false then
  redis.call('SET', value_name, ARGV[1])
  return tonumber(ARGV[1])
end
local released = redis.call('ZREMRANGEBYSCORE', permits_name, 0, tonumber(ARGV[3]) - tonumber(ARGV[2]))
if released > 0 then
  -- The bug: what was given back is still among the permits, and comes back once more.
  current = tonumber(current) + released
  redis.call('SET', value_name, current)
end
return tonumber(current)

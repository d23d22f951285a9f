-- tryAcquire of Redisson's RRateLimiter, for permits of 1 (it packs their number into the member).
-- KEYS what is left, and the permits by time; ARGV rate, interval (ms), now (ms), a name for this request; replies 1 where it is
-- admitted.
local value_name, permits_name = KEYS[1], KEYS[2]
local rate, interval, now = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local current = redis.call('GET', value_name)
if current ~= false then
  local released = redis.call('ZREMRANGEBYSCORE', permits_name, 0, now - interval)
  if released > 0 then
    if tonumber(current) + released > rate then
      current = rate - redis.call('ZCARD', permits_name)
    else
      current = tonumber(current) + released
    end
    redis.call('SET', value_name, current)
  end
  if tonumber(current) < 1 then return 0 end
else
  redis.call('SET', value_name, rate)
end
redis.call('ZADD', permits_name, now, ARGV[4])
redis.call('DECRBY', value_name, 1)
return 1

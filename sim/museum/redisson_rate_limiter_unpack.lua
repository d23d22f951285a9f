-- tryAcquire of Redisson's RRateLimiter as it was in 3.15, for permits of 1 (it packs their number into the member).
-- KEYS what is left, and the permits by time; ARGV rate, interval (ms), now (ms), a name for this request; replies nil where it is
-- admitted.
local value_name, permits_name = KEYS[1], KEYS[2]
local rate, interval, now = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local current = redis.call('GET', value_name)
if current ~= false then
  local expired = redis.call('ZRANGEBYSCORE', permits_name, 0, now - interval)
  local released = #expired
  if released > 0 then
    redis.call('ZREM', permits_name, unpack(expired))   -- the bug: Lua takes no more than 7999 values
    current = tonumber(current) + released
    redis.call('SET', value_name, current)
  end
  if tonumber(current) < 1 then
    return redis.call('ZRANGE', permits_name, 0, 0, 'WITHSCORES')
  end
else
  redis.call('SET', value_name, rate)
end
redis.call('ZADD', permits_name, now, ARGV[4])
redis.call('DECRBY', value_name, 1)
return nil

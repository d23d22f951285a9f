-- A request to Redisson's RRateLimiter as it was in 4.6, for one permit.
-- KEYS what is left, and the permits by time; ARGV rate, interval (ms), now (ms), a name for this request.
-- Replies 1 where it is admitted.
local rate, interval, now = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local left = tonumber(redis.call('GET', KEYS[1])) or rate
local over = redis.call('ZREMRANGEBYSCORE', KEYS[2], 0, now - interval)
if over > 0 then
  left = left + over
  if left > rate then left = rate - redis.call('ZCARD', KEYS[2]) end
end
local admitted = left >= 1
if admitted then
  redis.call('ZADD', KEYS[2], now, ARGV[4])
  left = left - 1
end
redis.call('SET', KEYS[1], left)
return admitted and 1 or 0

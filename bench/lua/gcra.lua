-- GCRA as redis-cell, a module, computes it; in microseconds where it has nanoseconds, which a double cannot hold.
-- KEYS[1] the theoretical arrival time; ARGV burst, microseconds in which it comes back, cost.
-- Replies 1 where it is denied, burst, remaining, and retry_after and reset_after in seconds, rounded up from a
-- millisecond on.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local interval = math.floor(ARGV[2] / ARGV[1])
local increment, tolerance = interval * ARGV[3], interval * ARGV[1]
local arrival = math.max(tonumber(redis.call('GET', KEYS[1]) or now), now)
local ttl = arrival + increment - now
local wait, is_denied = ttl - tolerance, 0
if wait > 0 then
  is_denied, ttl = 1, arrival - now
  if increment > tolerance then wait = -1000000 end
else
  wait = -1000000
  redis.call('SET', KEYS[1], now + ttl, 'PX', math.max(math.floor(ttl / 1000), 1))
end
local remaining = math.max(math.floor((tolerance - ttl) / interval), 0)
return {is_denied, tonumber(ARGV[1]), remaining, math.floor((wait + 999000) / 1000000), math.floor((ttl + 999000) / 1000000)}

-- A token bucket as the request rate limiter of spring-cloud-gateway has it.
-- KEYS the tokens, and when they were refilled; ARGV rate (per s), capacity, the client's time (s), cost.
-- Replies whether it is admitted, and what is left.
local rate, capacity, now, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local tokens = tonumber(redis.call('GET', KEYS[1])) or capacity
local refilled = tonumber(redis.call('GET', KEYS[2])) or 0
tokens = math.min(capacity, tokens + math.max(0, now - refilled) * rate)
local admitted = tokens >= cost
if admitted then tokens = tokens - cost end
local ttl = math.floor(capacity / rate * 2)   -- a bug: 0 where the bucket is full within half a second
if ttl > 0 then   -- and with 0 nothing is stored at all
  redis.call('SETEX', KEYS[1], ttl, tokens)
  redis.call('SETEX', KEYS[2], ttl, now)   -- a bug: a clock that is behind sets the time back
end
return {admitted and 1 or 0, tokens}

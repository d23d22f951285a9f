-- The request rate limiter of spring-cloud-gateway, in its words.
-- KEYS the tokens, and when they were refilled; ARGV rate (per s), capacity, the client's time (s), cost;
-- replies whether it is admitted, and what is left.
local tokens_key, timestamp_key = KEYS[1], KEYS[2]
local rate, capacity = tonumber(ARGV[1]), tonumber(ARGV[2])
local now, requested = tonumber(ARGV[3]), tonumber(ARGV[4])
local fill_time = capacity / rate
local ttl = math.floor(fill_time * 2)   -- a bug: 0 where the bucket fills within half a second
local last_tokens = tonumber(redis.call('GET', tokens_key))
if last_tokens == nil then last_tokens = capacity end
local last_refreshed = tonumber(redis.call('GET', timestamp_key))
if last_refreshed == nil then last_refreshed = 0 end
local delta = math.max(0, now - last_refreshed)
local filled_tokens = math.min(capacity, last_tokens + delta * rate)
local allowed = filled_tokens >= requested
local new_tokens, allowed_num = filled_tokens, 0
if allowed then
  new_tokens, allowed_num = filled_tokens - requested, 1
end
if ttl > 0 then   -- and with 0 nothing is stored at all
  redis.call('SETEX', tokens_key, ttl, new_tokens)
  redis.call('SETEX', timestamp_key, ttl, now)   -- a bug: a clock that is behind sets the time back
end
return {allowed_num, new_tokens}

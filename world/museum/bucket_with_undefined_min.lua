-- A token bucket, as a widely copied tutorial has it.
-- KEYS[1] the bucket; ARGV capacity, rate (per s), now (s).
-- Replies whether it is admitted, and what is left.
local capacity, rate, now = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local bucket = redis.call('HMGET', KEYS[1], 'tokens', 'refilled')
local tokens, refilled = tonumber(bucket[1]) or capacity, tonumber(bucket[2]) or now
tokens = min(capacity, tokens + (now - refilled) * rate)   -- the bug: Lua has it as math.min
local admitted = tokens >= 1
if admitted then tokens = tokens - 1 end
redis.call('HMSET', KEYS[1], 'tokens', tokens, 'refilled', now)
redis.call('EXPIRE', KEYS[1], math.ceil(capacity / rate))
return {admitted and 1 or 0, tokens}

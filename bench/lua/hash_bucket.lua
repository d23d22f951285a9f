-- A token bucket as it is often written: tokens and a time in a hash.
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local bucket = redis.call('HMGET', KEYS[1], 'tokens', 'at')
local rate, burst = tonumber(ARGV[1]), tonumber(ARGV[2])
local tokens = tonumber(bucket[1]) or burst
tokens = math.min(burst, tokens + (now - (tonumber(bucket[2]) or now)) * rate)
local allowed = tokens >= 1
if allowed then tokens = tokens - 1 end
redis.call('HSET', KEYS[1], 'tokens', tokens, 'at', now)
redis.call('EXPIRE', KEYS[1], math.ceil(burst / rate) + 1)
return {allowed and 1 or 0, tostring(tokens)}

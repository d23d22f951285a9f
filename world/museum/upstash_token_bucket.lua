-- A token bucket, refilled at intervals, as upstash had it.
-- KEYS[1] the bucket; ARGV capacity, interval (ms), refill, now (ms), cost.
-- Replies what is left; below zero it is denied.
local capacity, interval, refill = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local now, cost = tonumber(ARGV[4]), tonumber(ARGV[5])
local tokens, since = tonumber(redis.call('HGET', KEYS[1], 'tokens')), tonumber(redis.call('HGET', KEYS[1], 'since'))
if not tokens then tokens, since = capacity, now end
local intervals = math.floor((now - since) / interval)
tokens, since = math.min(capacity, tokens + intervals * refill), since + intervals * interval
if tokens == 0 then return -1 end
tokens = tokens - cost
redis.call('HSET', KEYS[1], 'tokens', tokens, 'since', since)   -- the bug: also where it is below zero
redis.call('PEXPIRE', KEYS[1], math.ceil((capacity - tokens) / refill) * interval)
return tokens

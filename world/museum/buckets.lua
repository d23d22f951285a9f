-- Scripts of buckets, each after a line with its name.

--- upstash_token_bucket
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

--- glide_mq_token_bucket
-- The token bucket of a group as glide-mq had it.
-- KEYS[1] the group; ARGV capacity, rate (per s), now (ms), cost, 1 to take it.
-- Replies whether it is admitted, and what is left.
local key, capacity, rate = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2])
local now, cost = tonumber(ARGV[3]), tonumber(ARGV[4])
local tokens, refilled = tonumber(redis.call('HGET', key, 'tokens')), tonumber(redis.call('HGET', key, 'refilled'))
if not tokens then
  tokens, refilled = capacity, now
elseif tokens < capacity then   -- the bug: a full bucket keeps its old time, and is refilled for it later
  tokens, refilled = math.min(capacity, tokens + math.floor((now - refilled) * rate / 1000)), now
end
local admitted = tokens >= cost
if admitted and ARGV[5] == '1' then tokens = tokens - cost end
redis.call('HSET', key, 'tokens', tokens, 'refilled', refilled)
return {admitted and 1 or 0, tokens}

--- bucket_with_undefined_min
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

--- bucket_with_undeclared_key
-- A bucket that is refilled at intervals, as widely copied tutorials have it.
-- KEYS[1] the tokens; ARGV capacity, tokens of an interval, interval (s), now (s).
-- Replies what is left, below zero where it is denied.
local capacity, amount, interval, now = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local time_key = KEYS[1] .. '_time'   -- a bug: no cluster runs a script on a key that is not declared
local tokens, full_after = redis.call('GET', KEYS[1]), math.ceil(capacity / amount) * interval
if not tokens then
  redis.call('SETEX', KEYS[1], full_after, capacity - 1)
  redis.call('SETEX', time_key, full_after + 1, now)
  return capacity - 1
end
local refilled = redis.call('GET', time_key)
local intervals = math.floor((now - refilled) / interval)   -- a bug: this key can be gone alone
tokens = math.min(capacity, tokens + intervals * amount) - 1
if tokens < 0 then return -1 end
redis.call('SETEX', KEYS[1], full_after, tokens)
redis.call('SETEX', time_key, full_after, refilled + intervals * interval)
return tokens

--- spring_request_rate_limiter
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

--- redis_rate_allow_n
-- GCRA as redis_rate (Go) has it.
-- KEYS[1] the theoretical arrival time (TAT); ARGV burst, rate, period (s), cost.
-- Replies what was admitted, and what is left.
local burst, rate, period, cost = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local interval = period / rate
-- The bug: seconds in floating point, and so all that follows. They count from 2017, to have more digits.
local time = redis.call('TIME')
local now = time[1] - 1483228800 + time[2] / 1000000
local tat = math.max(tonumber(redis.call('GET', KEYS[1]) or now), now) + interval * cost
local left = (now - (tat - interval * burst)) / interval
if left < 0 then return {0, 0} end
redis.call('SET', KEYS[1], tat, 'EX', math.ceil(tat - now))
return {cost, left}   -- a reply drops the fraction of 8.9999

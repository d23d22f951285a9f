-- The token bucket of upstash/ratelimit-js, as it was.
-- KEYS[1] the bucket; ARGV capacity, interval (ms), refill, now (ms), cost; replies what is left; below zero it is denied.
local key, max_tokens, interval, refill_rate = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local now, increment_by = tonumber(ARGV[4]), tonumber(ARGV[5])
local bucket = redis.call('HMGET', key, 'refilledAt', 'tokens')
local refilled_at, tokens
if bucket[1] == false then
  refilled_at, tokens = now, max_tokens
else
  refilled_at, tokens = tonumber(bucket[1]), tonumber(bucket[2])
end
if now >= refilled_at + interval then
  local refills = math.floor((now - refilled_at) / interval)
  tokens = math.min(max_tokens, tokens + refills * refill_rate)
  refilled_at = refilled_at + refills * interval
end
if tokens == 0 then return -1 end
local remaining = tokens - increment_by
local expire_at = math.ceil((max_tokens - remaining) / refill_rate) * interval
redis.call('HSET', key, 'refilledAt', refilled_at, 'tokens', remaining)   -- the bug: also where it is below zero
redis.call('PEXPIRE', key, expire_at)
return remaining

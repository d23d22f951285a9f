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

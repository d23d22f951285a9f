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

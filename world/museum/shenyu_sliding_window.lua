-- A sliding log as Apache ShenYu has it.
-- KEYS the log, and a name for this request; ARGV rate (per s), capacity, the client's time (s).
-- Replies whether it is admitted, and what was left before.
local rate, capacity, now = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local window = capacity / rate
local used = redis.call('ZCARD', KEYS[1])   -- the bug: what is over by now is counted
local admitted = used < capacity
if admitted then redis.call('ZADD', KEYS[1], now, KEYS[2]) end
redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, now - window)   -- and goes only then
redis.call('EXPIRE', KEYS[1], window)
return {admitted and 1 or 0, capacity - used}

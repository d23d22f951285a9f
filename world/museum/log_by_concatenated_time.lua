-- A sliding log, as blogs have it.
-- KEYS[1] the log; ARGV limit, window (us); replies whether it is admitted, and what is left.
local limit, window = tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, now - window)
local used = redis.call('ZCARD', KEYS[1])
if used >= limit then return {0, 0} end
redis.call('ZADD', KEYS[1], now, now .. '')   -- the bug: 14 of the 16 digits, so that all of 100 us are one member
redis.call('PEXPIRE', KEYS[1], math.ceil(window / 1000))
return {1, limit - used - 1}

-- A sliding log, as blogs have it.
-- KEYS[1] the log; ARGV limit, window (ms), now (ms), a name for this request.
-- Replies whether it is admitted, and what is left.
local limit, window, now = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, now - window)   -- the bug: ranks, not scores: all of it goes
local used = redis.call('ZCARD', KEYS[1])
if used >= limit then return {0, 0} end
redis.call('ZADD', KEYS[1], now, ARGV[4])
redis.call('PEXPIRE', KEYS[1], window)
return {1, limit - used - 1}

-- A sliding log as it is commonly written: a sorted set by time. Correct for costs of 1 as it stands; the suite breaks it.
--
-- KEYS[1]  the sorted set
-- ARGV     limit, (unused), window (in the script's ticks), microseconds per tick
-- Reply    {admitted (0 or 1), remaining}
local limit, window, tick_us = tonumber(ARGV[1]), tonumber(ARGV[3]), tonumber(ARGV[4])
local time = redis.call('TIME')
local now = math.floor((time[1] * 1000000 + time[2]) / tick_us)
redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, now - window)
local used = redis.call('ZCARD', KEYS[1])
if used >= limit then return {0, 0} end
redis.call('ZADD', KEYS[1], now, string.format('%.0f-%d', now, used))
redis.call('PEXPIRE', KEYS[1], math.ceil(window * tick_us / 1000))
return {1, limit - used - 1}

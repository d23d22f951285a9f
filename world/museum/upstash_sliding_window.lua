-- A sliding window as upstash had it.
-- KEYS the counters of this window of the calendar and of the one before; ARGV limit, now (ms), window (ms), cost.
-- Replies what is left; below zero it is denied.
local limit, now, window, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local current = tonumber(redis.call('GET', KEYS[1]) or 0)
local previous = tonumber(redis.call('GET', KEYS[2]) or 0)
-- A bug: what is rounded down here is admitted anew.
local counts = math.floor(previous * (1 - now % window / window))
if counts + current >= limit then return -1 end   -- a bug: the cost is not looked at
local after = redis.call('INCRBY', KEYS[1], cost)   -- and here what is denied is charged
if after == cost then redis.call('PEXPIRE', KEYS[1], 2 * window + 1000) end
return limit - after - counts

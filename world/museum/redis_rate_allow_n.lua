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

-- GCRA as in go-redis/redis_rate, in its words.
-- KEYS[1] the theoretical arrival time (TAT); ARGV burst, rate, period (s), cost; replies what was admitted, and what is left.
local burst, rate, period, cost = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local emission_interval = period / rate
local increment = emission_interval * cost
local burst_offset = emission_interval * burst
local jan_1_2017 = 1483228800
local now = redis.call('TIME')
now = (now[1] - jan_1_2017) + (now[2] / 1000000)   -- the bug: seconds in floating point, and so all that follows
local tat = redis.call('GET', KEYS[1])
if not tat then tat = now else tat = tonumber(tat) end
tat = math.max(tat, now)
local new_tat = tat + increment
local allow_at = new_tat - burst_offset
local diff = now - allow_at
local remaining = diff / emission_interval
if remaining < 0 then return {0, 0} end
local reset_after = new_tat - now
if reset_after > 0 then
  redis.call('SET', KEYS[1], new_tat, 'EX', math.ceil(reset_after))
end
return {cost, remaining}   -- a reply drops the fraction of 8.9999

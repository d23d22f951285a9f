-- A counter with costs, as blogs have it.
-- KEYS[1] the counter; ARGV limit, window (s), cost; replies whether it is admitted, and what is left.
local limit, cost = tonumber(ARGV[1]), tonumber(ARGV[3])   -- the bug: tonumber takes nan, inf, -1 and 0x10
local used = tonumber(redis.call('GET', KEYS[1]) or 0)
if used + cost > limit then return {0, limit - used} end
redis.call('SET', KEYS[1], used + cost, 'EX', ARGV[2])
return {1, limit - used - cost}

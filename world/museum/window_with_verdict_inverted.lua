-- A fixed window, as a widely copied tutorial has it. The caller reads 1 as: passes.
-- KEYS[1] the counter; ARGV limit, window (s).
if redis.call('EXISTS', KEYS[1]) == 0 then redis.call('SETEX', KEYS[1], ARGV[2], 0) end
redis.call('INCR', KEYS[1])
local value, limit = redis.call('GET', KEYS[1]), ARGV[1]
return value >= limit and 1 or 0   -- two bugs: 1 is beyond the limit, and '2' >= '10'

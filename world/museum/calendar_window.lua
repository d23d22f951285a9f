-- A counter for each window of the calendar, as tutorials have it. Two windows meet in one instant.
-- KEYS[1] the counter, its name with the number of the window; ARGV limit, window (s).
local limit = tonumber(ARGV[1])
local used = redis.call('INCR', KEYS[1])
if used == 1 then redis.call('EXPIRE', KEYS[1], ARGV[2]) end
if used > limit then return {0, 0} end
return {1, limit - used}

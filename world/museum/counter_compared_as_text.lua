-- A counter per window, as blogs have it.
-- KEYS[1] the counter; ARGV limit, window (s); replies whether it is admitted, and what is left.
local used = redis.call('GET', KEYS[1])
if used and used >= ARGV[1] then   -- the bug: two strings, and '2' >= '10'
  return {0, 0}
end
used = redis.call('INCR', KEYS[1])
if used == 1 then redis.call('EXPIRE', KEYS[1], ARGV[2]) end
return {1, ARGV[1] - used}

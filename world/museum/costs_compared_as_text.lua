-- A counter with costs.
-- KEYS[1] the counter; ARGV limit, window (s), cost; replies whether it is admitted, and what is left.
local limit, cost = ARGV[1], ARGV[3]
local left = limit - (redis.call('GET', KEYS[1]) or 0)
if cost <= tostring(left) then   -- the bug: '10' comes before '9', and is admitted where 9 is not
  redis.call('SET', KEYS[1], limit - left + cost, 'EX', ARGV[2])
  return {1, left - cost}
end
return {0, left}

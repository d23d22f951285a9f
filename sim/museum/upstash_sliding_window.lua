-- The sliding window of upstash/ratelimit-js, as it was.
-- KEYS the counters of this window of the calendar and of the one before; ARGV limit, now (ms), window (ms), cost;
-- replies what is left; below zero it is denied.
local tokens, now, window, increment_by = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local in_current = tonumber(redis.call('GET', KEYS[1]) or 0)
local in_previous = tonumber(redis.call('GET', KEYS[2]) or 0)
local share_of_current = (now % window) / window
in_previous = math.floor((1 - share_of_current) * in_previous)   -- a bug: what is rounded down is admitted anew
if in_previous + in_current >= tokens then   -- a bug: the cost is not looked at
  return -1
end
local new_value = redis.call('INCRBY', KEYS[1], increment_by)   -- and here what is denied is charged
if new_value == tonumber(increment_by) then
  redis.call('PEXPIRE', KEYS[1], window * 2 + 1000)
end
return tokens - (new_value + in_previous)

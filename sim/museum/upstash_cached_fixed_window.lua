-- The cached fixed window of upstash/ratelimit-js, in its words.
-- KEYS[1] the counter of this window of the calendar; ARGV window (ms), cost; replies what is used.
local key, window, increment_by = KEYS[1], ARGV[1], ARGV[2]
local r = redis.call('INCRBY', key, increment_by)
if r == increment_by then   -- the bug: a number is never equal to a string, and the key never expires
  redis.call('PEXPIRE', key, window)
end
return r

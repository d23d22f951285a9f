-- A counter as upstash's cached fixed window has it.
-- KEYS[1] the counter of this window of the calendar; ARGV window (ms), cost; replies what is used.
local used = redis.call('INCRBY', KEYS[1], ARGV[2])
if used == ARGV[2] then   -- the bug: a number is never equal to a string, and the key never expires
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
end
return used

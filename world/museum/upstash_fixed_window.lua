-- The same with the comparison mended.
-- KEYS[1] the counter of this window of the calendar; ARGV window (ms), cost; replies what is used.
local used = redis.call('INCRBY', KEYS[1], ARGV[2])
if used == tonumber(ARGV[2]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
end
return used

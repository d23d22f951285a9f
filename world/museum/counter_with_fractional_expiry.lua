-- A counter that expires at the pace of its rate.
-- KEYS[1] the counter; ARGV rate (per s); replies whether it is admitted, and what is left.
local rate = tonumber(ARGV[1])
local used = redis.call('INCR', KEYS[1])
if used == 1 then
  redis.call('PEXPIRE', KEYS[1], 1000 / rate * 2)   -- the bug: a fraction is an error, and the counter stays for ever
end
if used > 2 then return {0, 0} end
return {1, 2 - used}

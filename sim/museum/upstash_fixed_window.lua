-- The same with the comparison mended: KEYS[1] the counter of this window; ARGV window (ms), cost; replies what is used.
local key, window, increment_by = KEYS[1], ARGV[1], ARGV[2]
local r = redis.call('INCRBY', key, increment_by)
if r == tonumber(increment_by) then
  redis.call('PEXPIRE', key, window)
end
return r

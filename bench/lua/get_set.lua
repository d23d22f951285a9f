-- A fixed window as it is often written: a counter and its expiry, by GET and SET.
local used = tonumber(redis.call('GET', KEYS[1]) or 0)
if used + 1 > tonumber(ARGV[1]) then return 0 end
redis.call('SET', KEYS[1], used + 1, 'PX', ARGV[2])
return 1

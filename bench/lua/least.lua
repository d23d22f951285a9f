-- What no limiter on one key can do without: the time, what is stored, and a write of 16 bytes where one is admitted.
-- It decides nothing.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
redis.call('GET', KEYS[1])
if ARGV[1] == 'admitted' then redis.call('SETRANGE', KEYS[1], '27', '0123456789abcdef') end
return now

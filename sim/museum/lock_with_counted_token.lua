-- Redisson's RFencedLock with re-entry mended.
-- KEYS the lock, and its token; ARGV lease (ms), the owner; replies nil where it is not free, else the token.
local is_free = redis.call('EXISTS', KEYS[1]) == 0
if not is_free and redis.call('HEXISTS', KEYS[1], ARGV[2]) == 0 then return nil end
if is_free then redis.call('INCR', KEYS[2]) end   -- the bug: a counter that is deleted begins at 1 again
redis.call('HINCRBY', KEYS[1], ARGV[2], 1)
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return tonumber(redis.call('GET', KEYS[2]))

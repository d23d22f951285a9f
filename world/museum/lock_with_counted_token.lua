-- The same with re-entry mended.
-- KEYS the lock, and its token; ARGV lease (ms), the owner; replies how often it is held, 0 where it is somebody else's, and
-- the token.
local is_free, is_own = redis.call('EXISTS', KEYS[1]) == 0, redis.call('HEXISTS', KEYS[1], ARGV[2]) == 1
if not is_free and not is_own then return {0, 0} end
if is_free then redis.call('INCR', KEYS[2]) end   -- the bug: a counter that is deleted begins at 1 again
local holds = redis.call('HINCRBY', KEYS[1], ARGV[2], 1)
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return {holds, tonumber(redis.call('GET', KEYS[2]))}

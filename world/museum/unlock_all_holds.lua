-- How a reentrant lock is given back where holds are not counted down.
-- KEYS[1] the lock; ARGV lease (ms), the owner; replies how often it is held then, nil where it is not its.
if redis.call('HEXISTS', KEYS[1], ARGV[2]) == 0 then return nil end
redis.call('DEL', KEYS[1])   -- the bug: the first release gives all holds back
return 0

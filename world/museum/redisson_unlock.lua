-- How Redisson's RLock is given back.
-- KEYS[1] the lock; ARGV lease (ms), the owner; replies how often it is held then, nil where it is not its.
if redis.call('HEXISTS', KEYS[1], ARGV[2]) == 0 then return nil end
local holds = redis.call('HINCRBY', KEYS[1], ARGV[2], -1)
if holds > 0 then
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
else
  redis.call('DEL', KEYS[1])
end
return holds

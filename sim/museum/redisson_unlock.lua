-- unlock of Redisson's RLock. KEYS[1] the lock; ARGV lease (ms), the owner; replies nil where it is not held, 1 where it is free.
if redis.call('HEXISTS', KEYS[1], ARGV[2]) == 0 then return nil end
local counter = redis.call('HINCRBY', KEYS[1], ARGV[2], -1)
if counter > 0 then
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
  return 0
end
redis.call('DEL', KEYS[1])
return 1

-- tryLock of Redisson's RLock, in its words.
-- KEYS[1] the lock; ARGV lease (ms), the owner; replies nil where it was taken, else for how long it is not free (ms).
if (redis.call('EXISTS', KEYS[1]) == 0) or (redis.call('HEXISTS', KEYS[1], ARGV[2]) == 1) then
  redis.call('HINCRBY', KEYS[1], ARGV[2], 1)   -- a bug: a request that is sent again is one hold more
  redis.call('PEXPIRE', KEYS[1], ARGV[1])   -- a bug: a shorter lease than the one that there is
  return nil
end
return redis.call('PTTL', KEYS[1])

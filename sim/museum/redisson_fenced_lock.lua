-- tryLock of Redisson's RFencedLock.
-- KEYS the lock, and its token; ARGV lease (ms), the owner; replies nil where it is not free, else the token.
if (redis.call('EXISTS', KEYS[1]) == 0) or (redis.call('HEXISTS', KEYS[1], ARGV[2]) == 1) then
  redis.call('INCR', KEYS[2])   -- a bug: also where the owner has it already; and a counter that is deleted begins at 1
  redis.call('HINCRBY', KEYS[1], ARGV[2], 1)
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
  return tonumber(redis.call('GET', KEYS[2]))
end
return nil

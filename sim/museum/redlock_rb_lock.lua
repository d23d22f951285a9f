-- The lock of redlock-rb, which extends by the same script.
-- KEYS[1] the lock; ARGV the owner, lease (ms), 'yes' where a lock that is gone may be taken; replies whether it was done.
if (redis.call('EXISTS', KEYS[1]) == 0 and ARGV[3] == 'yes') or redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])   -- the bug: an extension says 'yes' unless it is told not to
  return 1
end
return 0

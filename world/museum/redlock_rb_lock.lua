-- The lock of redlock-rb, which extends by the same script.
-- KEYS[1] the lock; ARGV the owner, lease (ms), 'yes' where a lock that is gone may be taken.
-- Replies whether it was done.
local owner = redis.call('GET', KEYS[1])
if owner == ARGV[1] or (not owner and ARGV[3] == 'yes') then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])   -- the bug: an extension says 'yes' unless it is told not to
  return 1
end
return 0

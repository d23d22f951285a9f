-- A lock, as blogs have it. KEYS[1] the lock; ARGV the owner, lease (ms); replies whether it was taken.
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end
return 0

-- How that lock is given back, as blogs have it. KEYS[1] the lock; ARGV the owner; replies whether it was held.
return redis.call('DEL', KEYS[1])   -- the bug: whose lock it is is not looked at

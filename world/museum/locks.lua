-- Scripts of locks, each after a line with its name.

--- redisson_fenced_lock
-- How Redisson's RFencedLock is taken.
-- KEYS the lock, and its token; ARGV lease (ms), the owner; replies how often it is held, 0 where it is somebody else's, and
-- the token.
local is_free, is_own = redis.call('EXISTS', KEYS[1]) == 0, redis.call('HEXISTS', KEYS[1], ARGV[2]) == 1
if not is_free and not is_own then return {0, 0} end
local token = redis.call('INCR', KEYS[2])   -- the bug: also where the owner has it already
local holds = redis.call('HINCRBY', KEYS[1], ARGV[2], 1)
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return {holds, token}

--- lock_with_counted_token
-- The same with re-entry mended.
-- KEYS the lock, and its token; ARGV lease (ms), the owner; replies how often it is held, 0 where it is somebody else's, and
-- the token.
local is_free, is_own = redis.call('EXISTS', KEYS[1]) == 0, redis.call('HEXISTS', KEYS[1], ARGV[2]) == 1
if not is_free and not is_own then return {0, 0} end
if is_free then redis.call('INCR', KEYS[2]) end   -- the bug: a counter that is deleted begins at 1 again
local holds = redis.call('HINCRBY', KEYS[1], ARGV[2], 1)
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return {holds, tonumber(redis.call('GET', KEYS[2]))}

--- unlock_all_holds
-- How a reentrant lock is given back where holds are not counted down.
-- KEYS[1] the lock; ARGV lease (ms), the owner; replies how often it is held then, nil where it is not its.
if redis.call('HEXISTS', KEYS[1], ARGV[2]) == 0 then return nil end
redis.call('DEL', KEYS[1])   -- the bug: the first release gives all holds back
return 0

--- lock_set_nx
-- A lock, as blogs have it. KEYS[1] the lock; ARGV the owner, lease (ms); replies whether it was taken.
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end
return 0

--- unlock_whoever_asks
-- How that lock is given back, as blogs have it. KEYS[1] the lock; ARGV the owner; replies whether it was held.
return redis.call('DEL', KEYS[1])   -- the bug: whose lock it is is not looked at

--- redlock_rb_lock
-- The lock of redlock-rb, which extends by the same script.
-- KEYS[1] the lock; ARGV the owner, lease (ms), 'yes' where a lock that is gone may be taken.
-- Replies whether it was done.
local owner = redis.call('GET', KEYS[1])
if owner == ARGV[1] or (not owner and ARGV[3] == 'yes') then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])   -- the bug: an extension says 'yes' unless it is told not to
  return 1
end
return 0

--- redisson_unlock
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

--- redisson_lock
-- How Redisson's RLock is taken.
-- KEYS[1] the lock; ARGV lease (ms), the owner; replies how often it is held, 0 where it is somebody else's.
local is_free, is_own = redis.call('EXISTS', KEYS[1]) == 0, redis.call('HEXISTS', KEYS[1], ARGV[2]) == 1
if not is_free and not is_own then return 0 end
local holds = redis.call('HINCRBY', KEYS[1], ARGV[2], 1)   -- a bug: what is sent again is one hold more
redis.call('PEXPIRE', KEYS[1], ARGV[1])   -- a bug: that may be sooner than it was
return holds

--- lock_by_clients_clock
-- The lock of GETSET times, as it was written before SET took NX and PX.
-- KEYS[1] the lock; ARGV the client's time (ms), lease (ms); replies whether it was taken.
local ends = redis.call('GET', KEYS[1])
if ends and tonumber(ends) > tonumber(ARGV[1]) then return 0 end   -- the bug: by the clock of whoever asks
redis.call('SET', KEYS[1], string.format('%.0f', ARGV[1] + ARGV[2]))
return 1

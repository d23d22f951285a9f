-- Tells all that listen to the key's channel, which has the key's own name. Needs the prelude.
--
-- From 7.0 on it is the channel of a shard, in a cluster or not, so that only nodes that have the key's
-- slot hear of it; listeners find out by these lines. Nothing fails where an ACL forbids it:
-- waiters look from time to time.
local sharded = redis.REDIS_VERSION_NUM ~= nil

-- The message is the name of the waiter that it is for (32 hex digits), or is empty and for all of them.
local function publish(message)
  redis.pcall(sharded and 'SPUBLISH' or 'PUBLISH', key, message)
end

-- Writes what is stored under the key as it was, to expire as it would have. By this its connection has
-- written something after all that was done to the key before, by whichever connection: WAIT on it tells of
-- that too, and not, as some servers do, of its connection's own last write alone. Its first write takes no memory, so
-- that one which is full refuses none of it.
--
-- Reply    1 written; 0 not: it is of no kind that scripts of lockage write
local key = KEYS[1]
local kind = redis.call('TYPE', key).ok
if kind == 'string' then
  redis.call('SET', key, redis.call('GETEX', key), 'KEEPTTL')
elseif kind == 'list' then
  redis.call('LTRIM', key, 0, -1)
  redis.call('LSET', key, 0, redis.call('LINDEX', key, 0))
elseif kind == 'none' then
  redis.call('DEL', key)
  redis.call('SET', key, '')
  redis.call('DEL', key)
else
  return 0
end
return 1

-- Scripts of logs that slide, each after a line with its name.

--- log_by_seconds
-- A sliding log as in sockudo, which does the same in commands.
-- KEYS[1] the log; ARGV limit, window (s), now (s); replies whether it is admitted, and what is left.
local limit, window, now = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, now - window)
local used = redis.call('ZCARD', KEYS[1])
if used >= limit then return {0, 0} end
redis.call('ZADD', KEYS[1], now, ARGV[3])   -- the bug: all of a second are one member
redis.call('EXPIRE', KEYS[1], window)
return {1, limit - used - 1}

--- log_by_concatenated_time
-- A sliding log, as blogs have it.
-- KEYS[1] the log; ARGV limit, window (us); replies whether it is admitted, and what is left.
local limit, window = tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, now - window)
local used = redis.call('ZCARD', KEYS[1])
if used >= limit then return {0, 0} end
redis.call('ZADD', KEYS[1], now, now .. '')   -- the bug: 14 of the 16 digits, so that all of 100 us are one member
redis.call('PEXPIRE', KEYS[1], math.ceil(window / 1000))
return {1, limit - used - 1}

--- log_by_chance
-- A sliding log, as blogs have it.
-- KEYS[1] the log; ARGV limit, window (us); replies whether it is admitted, and what is left.
local limit, window = tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, now - window)
local used = redis.call('ZCARD', KEYS[1])
if used >= limit then return {0, 0} end
redis.call('ZADD', KEYS[1], now, math.random())   -- the bug: each run of a script draws the same numbers
redis.call('PEXPIRE', KEYS[1], math.ceil(window / 1000))
return {1, limit - used - 1}

--- redisson_rate_limiter_unpack
-- A request to Redisson's RRateLimiter as it was in 3.15, for one permit.
-- KEYS what is left, and the permits by time; ARGV rate, interval (ms), now (ms), a name for this request.
-- Replies 1 where it is admitted.
local rate, interval, now = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local left = tonumber(redis.call('GET', KEYS[1])) or rate
local over = redis.call('ZRANGEBYSCORE', KEYS[2], 0, now - interval)
if #over > 0 then
  redis.call('ZREM', KEYS[2], unpack(over))   -- the bug: Lua takes no more than 7999 values
  left = left + #over
end
local admitted = left >= 1
if admitted then
  redis.call('ZADD', KEYS[2], now, ARGV[4])
  left = left - 1
end
redis.call('SET', KEYS[1], left)
return admitted and 1 or 0

--- log_removed_by_rank
-- A sliding log, as blogs have it.
-- KEYS[1] the log; ARGV limit, window (ms), now (ms), a name for this request.
-- Replies whether it is admitted, and what is left.
local limit, window, now = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, now - window)   -- the bug: ranks, not scores: all of it goes
local used = redis.call('ZCARD', KEYS[1])
if used >= limit then return {0, 0} end
redis.call('ZADD', KEYS[1], now, ARGV[4])
redis.call('PEXPIRE', KEYS[1], window)
return {1, limit - used - 1}

--- log_of_two_units
-- A sliding log, as blogs have it.
-- KEYS[1] the log; ARGV limit, window (s), now (ms), a name for this request.
-- Replies whether it is admitted, and what is left.
local limit, window, now = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, now - window)   -- the bug: milliseconds less seconds
local used = redis.call('ZCARD', KEYS[1])
if used >= limit then return {0, 0} end
redis.call('ZADD', KEYS[1], now, ARGV[4])
redis.call('EXPIRE', KEYS[1], window)
return {1, limit - used - 1}

--- shenyu_sliding_window
-- A sliding log as Apache ShenYu has it.
-- KEYS the log, and a name for this request; ARGV rate (per s), capacity, the client's time (s).
-- Replies whether it is admitted, and what was left before.
local rate, capacity, now = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local window = capacity / rate
local used = redis.call('ZCARD', KEYS[1])   -- the bug: what is over by now is counted
local admitted = used < capacity
if admitted then redis.call('ZADD', KEYS[1], now, KEYS[2]) end
redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, now - window)   -- and goes only then
redis.call('EXPIRE', KEYS[1], window)
return {admitted and 1 or 0, capacity - used}

--- redisson_rate_limiter_acquire
-- A request to Redisson's RRateLimiter as it was in 4.6, for one permit.
-- KEYS what is left, and the permits by time; ARGV rate, interval (ms), now (ms), a name for this request.
-- Replies 1 where it is admitted.
local rate, interval, now = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local left = tonumber(redis.call('GET', KEYS[1])) or rate
local over = redis.call('ZREMRANGEBYSCORE', KEYS[2], 0, now - interval)
if over > 0 then
  left = left + over
  if left > rate then left = rate - redis.call('ZCARD', KEYS[2]) end
end
local admitted = left >= 1
if admitted then
  redis.call('ZADD', KEYS[2], now, ARGV[4])
  left = left - 1
end
redis.call('SET', KEYS[1], left)
return admitted and 1 or 0

--- redisson_rate_limiter_available
-- How many permits are left in Redisson's RRateLimiter, as it was in 4.6.
-- KEYS what is left, and the permits by time; ARGV rate, interval (ms), now (ms); replies what is left.
local rate, interval, now = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local left = tonumber(redis.call('GET', KEYS[1])) or rate
-- The bug: what was given back is still among the permits, and comes back once more.
left = left + redis.call('ZREMRANGEBYSCORE', KEYS[2], 0, now - interval)
redis.call('SET', KEYS[1], left)
return left

--- redisson_rate_limiter_release
-- How permits are given back to Redisson's RRateLimiter, as it was in 4.6.
-- KEYS[1] what is left; ARGV rate, permits; replies how many came back.
local rate = tonumber(ARGV[1])
local left = tonumber(redis.call('GET', KEYS[1])) or rate
local after = math.min(rate, left + ARGV[2])   -- and the log of permits stays as it is
redis.call('SET', KEYS[1], after)
return after - left

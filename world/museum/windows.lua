-- Scripts of windows that count, each after a line with its name.

--- counter_expires_again
-- A counter per window, as blogs have it.
-- KEYS[1] the counter; ARGV limit, window (s); replies whether it is admitted, and what is left.
local limit = tonumber(ARGV[1])
local used = redis.call('INCR', KEYS[1])
redis.call('EXPIRE', KEYS[1], ARGV[2])   -- the bug: each hit puts the end of the window off
if used > limit then return {0, 0} end
return {1, limit - used}

--- counter_compared_as_text
-- A counter per window, as blogs have it.
-- KEYS[1] the counter; ARGV limit, window (s); replies whether it is admitted, and what is left.
local used = redis.call('GET', KEYS[1])
if used and used >= ARGV[1] then   -- the bug: two strings, and '2' >= '10'
  return {0, 0}
end
used = redis.call('INCR', KEYS[1])
if used == 1 then redis.call('EXPIRE', KEYS[1], ARGV[2]) end
return {1, ARGV[1] - used}

--- upstash_cached_fixed_window
-- A counter as upstash's cached fixed window has it.
-- KEYS[1] the counter of this window of the calendar; ARGV window (ms), cost; replies what is used.
local used = redis.call('INCRBY', KEYS[1], ARGV[2])
if used == ARGV[2] then   -- the bug: a number is never equal to a string, and the key never expires
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
end
return used

--- counter_with_fractional_expiry
-- A counter that expires at the pace of its rate.
-- KEYS[1] the counter; ARGV rate (per s); replies whether it is admitted, and what is left.
local rate = tonumber(ARGV[1])
local used = redis.call('INCR', KEYS[1])
if used == 1 then
  redis.call('PEXPIRE', KEYS[1], 1000 / rate * 2)   -- the bug: a fraction is an error, and the counter stays for ever
end
if used > 2 then return {0, 0} end
return {1, 2 - used}

--- counter_of_any_number
-- A counter with costs, as blogs have it.
-- KEYS[1] the counter; ARGV limit, window (s), cost; replies whether it is admitted, and what is left.
local limit, cost = tonumber(ARGV[1]), tonumber(ARGV[3])   -- the bug: tonumber takes nan, inf, -1 and 0x10
local used = tonumber(redis.call('GET', KEYS[1]) or 0)
if used + cost > limit then return {0, limit - used} end
redis.call('SET', KEYS[1], used + cost, 'EX', ARGV[2])
return {1, limit - used - cost}

--- window_with_verdict_inverted
-- A fixed window, as a widely copied tutorial has it. The caller reads 1 as: passes.
-- KEYS[1] the counter; ARGV limit, window (s).
if redis.call('EXISTS', KEYS[1]) == 0 then redis.call('SETEX', KEYS[1], ARGV[2], 0) end
redis.call('INCR', KEYS[1])
local value, limit = redis.call('GET', KEYS[1]), ARGV[1]
return value >= limit and 1 or 0   -- two bugs: 1 is beyond the limit, and '2' >= '10'

--- calendar_window
-- A counter for each window of the calendar, as tutorials have it. Two windows meet in one instant.
-- KEYS[1] the counter, its name with the number of the window; ARGV limit, window (s).
local limit = tonumber(ARGV[1])
local used = redis.call('INCR', KEYS[1])
if used == 1 then redis.call('EXPIRE', KEYS[1], ARGV[2]) end
if used > limit then return {0, 0} end
return {1, limit - used}

--- costs_compared_as_text
-- A counter with costs.
-- KEYS[1] the counter; ARGV limit, window (s), cost; replies whether it is admitted, and what is left.
local limit, cost = ARGV[1], ARGV[3]
local left = limit - (redis.call('GET', KEYS[1]) or 0)
if cost <= tostring(left) then   -- the bug: '10' comes before '9', and is admitted where 9 is not
  redis.call('SET', KEYS[1], limit - left + cost, 'EX', ARGV[2])
  return {1, left - cost}
end
return {0, left}

--- upstash_fixed_window
-- The same with the comparison mended.
-- KEYS[1] the counter of this window of the calendar; ARGV window (ms), cost; replies what is used.
local used = redis.call('INCRBY', KEYS[1], ARGV[2])
if used == tonumber(ARGV[2]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
end
return used

--- upstash_sliding_window
-- A sliding window as upstash had it.
-- KEYS the counters of this window of the calendar and of the one before; ARGV limit, now (ms), window (ms), cost.
-- Replies what is left; below zero it is denied.
local limit, now, window, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local current = tonumber(redis.call('GET', KEYS[1]) or 0)
local previous = tonumber(redis.call('GET', KEYS[2]) or 0)
-- A bug: what is rounded down here is admitted anew.
local counts = math.floor(previous * (1 - now % window / window))
if counts + current >= limit then return -1 end   -- a bug: the cost is not looked at
local after = redis.call('INCRBY', KEYS[1], cost)   -- and here what is denied is charged
if after == cost then redis.call('PEXPIRE', KEYS[1], 2 * window + 1000) end
return limit - after - counts

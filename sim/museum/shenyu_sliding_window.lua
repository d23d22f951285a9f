-- The sliding window of Apache ShenYu, in its words.
-- KEYS the log, and a name for this request; ARGV rate (per s), capacity, the client's time (s); replies whether it is
-- admitted, and what is left.
local tokens_key, timestamp_key = KEYS[1], KEYS[2]
local rate, capacity, now = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local window_size = tonumber(capacity / rate)
local window_time = 1
local last_requested = 0
local exists_key = redis.call('EXISTS', tokens_key)
if exists_key == 1 then
  last_requested = redis.call('ZCARD', tokens_key)   -- the bug: what is over by now is counted
end
local remain_request = capacity - last_requested
local allowed_num = 0
if last_requested < capacity then
  allowed_num = 1
  redis.call('ZADD', tokens_key, now, timestamp_key)
end
redis.call('ZREMRANGEBYSCORE', tokens_key, 0, now - window_size / window_time)   -- and goes only then
redis.call('EXPIRE', tokens_key, window_size)
return {allowed_num, remain_request}

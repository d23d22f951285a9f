-- Admits each of several costs, in order, at one time, each as if sent singly. LINDEX and LRANGE;
-- where anything was admitted also LTRIM (if anything had expired), LSET, RPUSH and PEXPIRE.
--
-- ARGV[3]  empty, or an id for a request that may be sent again, which `read_request` describes
-- ARGV[4]  L1, then limit and window (us)
-- ARGV[7]  and on: one or more costs, each at least 1
-- Reply    {0, now}; what counted before this call and when the latest request was admitted (0 and 0
--          where there was none); then for each cost, where it did not fit, when enough will have
--          expired for it, else 0 (also where it never fits): every decision follows from these.
--          {6, now, until} and the same where the key is blocked: nothing is admitted. A request that
--          is remembered gets the reply that it got, which was made from the two numbers before it.
if ARGV[4] ~= 'L1' then return wrong_argument(4, 'L1') end
local wrong = not_whole(5, max(7, #ARGV))
if wrong then return wrong_argument(wrong, 'a whole number') end
wrong = read_request(7)
if wrong then return wrong end

local existed, refused = open_log(4)
if refused then return refused end
local again = repeated(ARGV[7])
if again then
  if again[1] == 0 then again[#again + 1] = 0 end
  return again
end

local reply, admitted = begin_reply(), {}
local told = id and format('%.0f %.0f', used, last)
for i = 7, #ARGV do
  local cost = tonumber(ARGV[i])
  if cost < 1 then return wrong_argument(i, 'at least 1') end
  local broken = add_freed_at(reply, cost)
  if broken then return broken end
  if cost <= limit - used and not blocked then
    used, last = used + cost, at
    admitted[#admitted + 1] = format(cost == 1 and '%.0f' or '%.0f:%.0f', at, cost)
  end
end

if #admitted > 0 then
  local behind, till = remembered(ARGV[7], told)
  local new_head = head .. format('%.0f %.0f', used, last) .. behind
  if existed then
    -- The last expired entry stays in the head's place, and is overwritten by it.
    if expired > 0 then redis.call('LTRIM', key, format('%d', expired), '-1') end
    redis.call('LSET', key, '0', new_head)
  else
    redis.call('RPUSH', key, new_head)
  end
  -- Lua's stack takes about 8,000 values at once, and no call should take long.
  for i = 1, #admitted, NEXT_PIECE do
    redis.call('RPUSH', key, unpack(admitted, i, math.min(i + NEXT_PIECE - 1, #admitted)))
  end
  redis.call('PEXPIRE', key, ttl_ms(max(last + window, till)))
end
return reply

-- Admits each of several costs, in order, at one time, each as if sent singly. LINDEX and LRANGE;
-- where anything was admitted also LTRIM (if anything had expired), LSET, RPUSH and PEXPIRE.
--
-- ARGV[3]  empty, or an id for a request that may be sent again, which `read_request` describes
-- ARGV[4]  L1, then limit and window (us)
-- ARGV[7]  and on: one or more costs, each at least 1
-- Reply    {0, now} and four numbers for each cost, which `outcome` describes. A request that is
--          remembered gets the reply that it got, which was made from the cost that counts after it
--          and the time when all has expired.
if ARGV[4] ~= 'L1' then return wrong_argument(4, 'L1') end
local wrong = not_whole(5, max(7, #ARGV))
if wrong then return wrong_argument(wrong, 'a whole number') end
wrong = read_request(7)
if wrong then return wrong end

local existed, refused = open_log(4)
if refused then return refused end
local again = repeated(ARGV[7])
if again and again[1] == 0 then again = {0, again[2], 1, again[3], 0, again[4]} end
if again then return again end

local reply, admitted = {0, now}, {}
for i = 7, #ARGV do
  local cost = tonumber(ARGV[i])
  if cost < 1 then return wrong_argument(i, 'at least 1') end
  local fits = cost <= limit - used
  if fits then
    used, last = used + cost, at
    admitted[#admitted + 1] = format(cost == 1 and '%.0f' or '%.0f:%.0f', at, cost)
  end
  local broken = outcome(reply, fits, cost)
  if broken then return broken end
end

if #admitted > 0 then
  local behind, till = remembered(ARGV[7], id and format('%.0f %.0f', used, last + window))
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

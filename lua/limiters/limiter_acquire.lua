-- Admits each of several costs, in order, at one time, each as if sent singly, under any limit and
-- whatever limit the record was written under: it is converted, which `conversion` describes. TYPE, GET
-- or LINDEX and LRANGE; SET, or with a log what `store_entries` calls, where anything was admitted or
-- converted.
--
-- ARGV[3]  empty, or an id for a request that may be sent again, which `read_request` describes
-- ARGV[4]  and on: the limit: a tag and its configuration; or C1, then two to eight of these
-- ARGV[..] with leaky buckets among it the patience (us), the longest that the turn of a request may be away
--          when it is admitted; then one or more costs, each at least 1; or one request's cost for each part, each
--          with a + before it and not all 0, such as +1+950, of which the logs' are the same
-- Reply    {0, now}; each part's state before this call, settled (of a single counter as it was stored, as the fast
--          path replies it), which is a log's used and last; then
--          for each cost, for each log, when enough will have expired for it, 0 where it fits or never
--          can: every decision follows from these. {6, now, until} and the same where the key is
--          blocked: nothing is admitted. A request that is remembered gets the reply that it got, which
--          was made from the states.
$any_limit
local first, refused = read_limit(4)
if refused then return refused end
local patience = has_queues() and first
local costs = patience and first + 1 or first
local asked, by_part = read_cost(costs)
local wrong = not_whole(first, costs - 1) or not asked and costs or not_whole(costs + 1, #ARGV)
if wrong then return wrong_argument(wrong, 'a whole number') end
if by_part and (ARGV[costs + 1] or asked < 1) then return wrong_argument(costs, 'one cost for each part, not all 0') end
refused = read_request(costs) or read_record() or take_costs(by_part, true)
-- Whoever asks keeps a limit per client, which a call of several keys does not know.
if refused then return refused, refused[1] == 0 and policy and 'kept' or nil end

local again = repeated(ARGV[costs])
if again then
  if again[1] == 0 then
    for _ = 1, #logs do again[#again + 1] = 0 end
  end
  return told(again), true
end

if is_off then return told({CLOCK_OFF, now}) end
local reply = blocked and {BLOCKED, now, blocked} or {0, now}
local before = prior or {}
if not before[1] then add_states(before) end
for _, number in ipairs(before) do reply[#reply + 1] = number end
local admitted, least = false, blocked and 0 or remaining()
local longest = follows and follows.patience or patience and tonumber(ARGV[patience])
local function in_time()
  return not longest or turn_at() - now <= longest
end
for i = costs, #ARGV do
  local cost = asked or tonumber(ARGV[i])
  if cost < 1 then return wrong_argument(i, 'at least 1') end
  add_freed_at(reply, cost)
  if (each and not blocked and fits(cost) or not each and cost <= least) and in_time() then
    admitted, least = true, least - cost
    charge(cost)
  end
  asked = nil
end

if broken then return {DAMAGED} end
if not admitted then id = nil end   -- a request that was not admitted is not remembered
if admitted or converted then store(ARGV[costs], as_text(before, 1)) end
return told(reply), admitted   -- which is for a call of several keys

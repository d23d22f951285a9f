-- Admits each of several costs, in order, at one time, each as if sent singly. GET, and SET with
-- an expiry where anything was admitted.
--
-- ARGV[3]  empty, or an id for a request that may be sent again, which `read_request` describes
-- ARGV[4]  the record's tag, then the configuration, which the machine's part describes
-- ARGV[..] the machine's terms, if it has any, then one or more costs, each at least 1
-- Reply    {0, now} and, where there was a record, its state before this call: every decision
--          follows from these; {6, now, until} and the same where the key is blocked: nothing is
--          admitted. A request that is remembered gets the reply that it got.
local machine = machines[ARGV[4]]
if not machine then return wrong_argument(4, 'the tag of this script') end
local first, last = 4, 4 + machine.config
local costs = last + 1 + (machine.terms or 0)
local wrong = not_whole(first + 1, max(costs, #ARGV))
if wrong then return wrong_argument(wrong, 'a whole number') end
wrong = read_request(costs)
if wrong then return wrong end

local head, refused, state = read_counter(first, last)
if refused then return refused end

local reply, s1, s2, s3 = {0, now}, nil, nil, nil
if state then
  s1, s2, s3 = match(state, machine.state)
  if not s1 then return {DAMAGED} end
  s1, s2, s3 = tonumber(s1), tonumber(s2), tonumber(s3)
  if max(s1, s2, s3 or s2) > EXACT then return {DAMAGED} end
  reply = blocked and {BLOCKED, now, blocked, s1, s2, s3} or {0, now, s1, s2, s3}
end

local again = repeated(ARGV[costs])
if again then return again end

-- A machine takes as many numbers as it has.
local settle, charge, fresh_at =
  machine.new(tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8]))
s1, s2, s3 = settle(s1, s2, s3)
local admitted = false
for at = costs, #ARGV do
  local cost = tonumber(ARGV[at])
  if cost < 1 then return wrong_argument(at, 'at least 1') end
  local c1, c2, c3 = charge(cost, s1, s2, s3)
  if c1 and not blocked then
    admitted, s1, s2, s3 = true, c1, c2, c3
  end
end
if admitted then
  -- The reply is made from the prior state, which is as it was stored.
  local behind, till = remembered(ARGV[costs], state)
  local record = head .. format(machine.format, s1, s2, s3) .. behind
  redis.call('SET', key, record, 'PX', ttl_ms(max(fresh_at(s1, s2, s3), till)))
end
return reply

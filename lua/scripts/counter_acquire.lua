-- Admits each of several costs, in order, at one time, each as if sent singly. GET, and SET with
-- an expiry where anything was admitted.
--
-- ARGV[3]  reserved for a request id: empty
-- ARGV[4]  the record's tag, then the configuration, which the machine's part describes
-- ARGV[..] one or more costs, each at least 1
-- Reply    {0, now} and, where there was a record, its state before this call: every decision
--          follows from these.
local first, last = 4, 4 + machine.config
if ARGV[3] ~= '' then return wrong_argument(3, 'empty: it is reserved') end
if ARGV[4] ~= machine.tag then return wrong_argument(4, machine.tag) end
local wrong = not_whole(first + 1, max(last + 1, #ARGV))
if wrong then return wrong_argument(wrong, 'a whole number') end

local head, refused, state = read_counter(first, last)
if refused then return refused end

local reply, s1, s2, s3 = {0, now}, nil, nil, nil
if state then
  s1, s2, s3 = match(state, machine.state)
  if not s1 then return {DAMAGED} end
  s1, s2, s3 = tonumber(s1), tonumber(s2), tonumber(s3)
  reply = {0, now, s1, s2, s3}
end

local settle, charge, fresh_at = machine.new(tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]))
s1, s2, s3 = settle(s1, s2, s3)
local admitted = false
for at = last + 1, #ARGV do
  local cost = tonumber(ARGV[at])
  if cost < 1 then return wrong_argument(at, 'at least 1') end
  local c1, c2, c3 = charge(cost, s1, s2, s3)
  if c1 then
    admitted, s1, s2, s3 = true, c1, c2, c3
  end
end
if admitted then
  redis.call('SET', key, head .. format(machine.format, s1, s2, s3), 'PX', ttl_ms(fresh_at(s1, s2, s3)))
end
return reply

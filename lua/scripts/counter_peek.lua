-- Reads the state of any limiter whose state is a few integers; writes nothing.
--
-- ARGV[3]  the record's tag, then the configuration, then the cost that is asked for
-- Reply    {0, now} and, where there is a record, its state: the decision follows from these;
--          {6, now, until} and the same where the key is blocked.
local wrong = not_whole(4, max(5, #ARGV))
if wrong then return wrong_argument(wrong, 'a whole number') end

local _, refused, state = read_counter(3, #ARGV - 1)
if refused then return refused end

local reply = blocked and {BLOCKED, now, blocked} or {0, now}
if state then
  if not find(state, '^%d+ %d+[ %d]*$') then return {DAMAGED} end
  for number in string.gmatch(state, '%d+') do
    reply[#reply + 1] = tonumber(number)
    if reply[#reply] > EXACT then return {DAMAGED} end
  end
end
return reply

-- Closes a latch that is open. GET, and SET where it was done now, or where a copy of it may arrive for longer.
--
-- ARGV[3]  the operation's id, 32 hex digits
-- ARGV[4]  how much there is to count down
-- ARGV[5]  refuse after this time (us)
-- ARGV[6]  for how long it is kept after each change (us)
-- Reply    {0, now, 1, left, 0} done, now or before, and what was left then;
--          {0, now, 0, left, time} it is closed, until then at most (us);
--          {0, now, 3, time} as latch_count_down
$latch_record
local wrong = wrong_operation()
if wrong then return wrong end
wrong = not_span(6, 6)
if wrong then return wrong_argument(wrong, 'from 1 to 2^50 us') end
local count = tonumber(ARGV[4])

local refused = read_latch() or answered('s', ARGV[3], count) or too_late()
if refused then return refused end
if left > 0 then return {0, now, CLOSED, left, till} end
left, keep = count, tonumber(ARGV[6])
return commit('s', ARGV[3], count)

-- Counts a latch down, at most to zero. GETEX, and SET where it was done now, or where a copy of it may arrive for
-- longer; then `publish`, where it opened it.
--
-- ARGV[3]  the operation's id, 32 hex digits
-- ARGV[4]  by how much
-- ARGV[5]  refuse after this time (us)
-- Reply    {0, now, 1, left, woke} done, now or before, what was left then, and whether it opened the latch
--          now, so that the waiters were told (1, or 0);
--          {0, now, 2} it is open;
--          {0, now, 3, time} it came after ARGV[5], or that is no later than a copy of an operation that is forgotten may
--          arrive: until then (us)
$latch_record
GET = 'GETEX'
local wrong = wrong_operation()
if wrong then return wrong end
local count = tonumber(ARGV[4])

local refused = read_latch() or answered('c', ARGV[3], count)
if refused then return refused end
if left == 0 then return {0, now, OPEN} end
refused = too_late()
if refused then return refused end
left = max(0, left - count)
return commit('c', ARGV[3], count)

-- Counts a latch down, at most to zero. GETEX, and SET where it was done now; then `publish`, where it opened it.
--
-- ARGV[3]  the operation's id, 32 hex digits
-- ARGV[4]  by how much
-- Reply    {0, now, 1, left, woke} done, now or before, what was left then, and whether it opened the latch
--          now, so that the waiters were told (1, or 0);
--          {0, now, 2} it is open
$latch_record
GET = 'GETEX'
local wrong = wrong_operation()
if wrong then return wrong end
local count = tonumber(ARGV[4])

local refused = read_latch() or answered('c', ARGV[3], count)
if refused then return refused end
if left == 0 then return {0, now, OPEN} end
left = max(0, left - count)
return commit('c', ARGV[3], count)

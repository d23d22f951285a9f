-- Tells what is left; writes nothing. GET.
--
-- Reply    {0, now, left, time} with the time at which it is open at the latest (us): now where it is
$latch_record
local refused = read_latch()
if refused then return refused end
return {0, now, left, left > 0 and till or now}

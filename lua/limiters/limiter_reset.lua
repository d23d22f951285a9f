-- Drops the record of a limiter, whatever limit it was written under. TYPE, GET or LINDEX, and DEL.
--
-- Reply    {0, now, existed}: existed is 1 where there was a record, else 0
$prelude
$packed
$any_record
local record, _, refused = read_any()
if refused then return refused end
if record then redis.call('DEL', key) end
return {0, now, record and 1 or 0}

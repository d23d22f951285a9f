-- Forgets a latch. GET, and DEL where there is one; then `publish`, where it was closed.
--
-- Reply    {0, now, 1, left} there was one, and what was left; {0, now, 0} there was none
$latch_record
local refused = read_latch()
if refused then return refused end
if not is_there then return {0, now, 0} end
redis.call('DEL', key)
if left > 0 then publish('') end
return {0, now, 1, left}

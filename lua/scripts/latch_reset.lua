-- Forgets a latch. GET, and DEL where there is one.
--
-- Reply    {0, now, 1} there was one; {0, now, 0} there was none
local refused = read_latch()
if refused then return refused end
if not is_there then return {0, now, 0} end
redis.call('DEL', key)
return {0, now, 1}

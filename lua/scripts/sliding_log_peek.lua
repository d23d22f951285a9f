-- Tells what an acquire of one cost would be told; writes nothing. LINDEX and LRANGE.
--
-- ARGV[3]  L1, then limit and window (us), then the cost, which may be 0
-- Reply    as of an acquire of one cost: see there
if ARGV[3] ~= 'L1' then return wrong_argument(3, 'L1') end
local wrong = not_whole(4, 6)
if wrong then return wrong_argument(wrong, 'a whole number') end

local _, refused = open_log(3)
if refused then return refused end
local reply = begin_reply()
local broken = add_freed_at(reply, tonumber(ARGV[6]))
if broken then return broken end
return reply

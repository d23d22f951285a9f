-- Extends the lease of a grant to at least now + lease. GETEX, and SET where that is longer.
--
-- ARGV[3]  the permit's id, 32 hex digits
-- ARGV[4]  the fencing token of the grant, or empty for whichever it has
-- ARGV[5]  the lease (us)
-- Reply    {0, now, 1, count, token, deadline} the grant;
--          {0, now, 5} it is not held
$semaphore_record
GET = 'GETEX'
if not is_id(ARGV[3]) then return wrong_argument(3, 'an id of 32 hex digits') end
local wrong = ARGV[4] ~= '' and not_whole(4, 4)
if wrong then return wrong_argument(wrong, 'a whole number, or empty') end
wrong = not_span(5, 5)
if wrong then return wrong_argument(wrong, 'from 1 to 2^50 us') end

local id = bytes_of(ARGV[3])
local refused = read_semaphore(id, tonumber(ARGV[4]))
if refused then return refused end
if not own then return {0, now, NOT_HELD} end
local lease_end = now + tonumber(ARGV[5])
if own.deadline < lease_end then
  own.deadline = lease_end
  commit(own.at, id, own)
end
return held(own)

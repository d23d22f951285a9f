-- Extends the lease of what an owner holds to at least now + lease. GETEX, and SET where that is longer.
--
-- ARGV[3]  r where it reads, w where it writes
-- ARGV[4]  the owner, 32 hex digits
-- ARGV[5]  the fencing token of the grant, or empty for whichever it has
-- ARGV[6]  the lease (us)
-- Reply    {0, now, 1, token, holds, deadline} the grant;
--          {0, now, 6} it is not held
$rw_lock_record
GET = 'GETEX'
local wrong = wrong_owner()
if wrong then return wrong end
wrong = ARGV[5] ~= '' and not_whole(5, 5)
if wrong then return wrong_argument(wrong, 'a whole number, or empty') end
wrong = not_span(6, 6)
if wrong then return wrong_argument(wrong, 'from 1 to 2^50 us') end

local refused = read_rw_lock()
if refused then return refused end
local grant = grant_of(ARGV[3], bytes_of(ARGV[4]))
if not grant or ARGV[5] ~= '' and grant.token ~= tonumber(ARGV[5]) then return {0, now, NOT_HELD} end
local lease_end = now + tonumber(ARGV[6])
if grant.deadline < lease_end then
  grant.deadline = lease_end
  commit()
end
return held(grant)

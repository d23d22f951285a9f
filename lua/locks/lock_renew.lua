-- Extends the lease of its owner to at least now + lease. GETEX, and SET where that is longer, or the record is
-- to be kept for longer.
--
-- ARGV[3]  how long to remember its holds (us)
-- ARGV[4]  the owner, 32 hex digits
-- ARGV[5]  the fencing token of the grant, or empty for whichever it has
-- ARGV[6]  the lease (us)
-- Reply    {0, now, 1, token, holds, deadline} the grant as it stands;
--          {0, now, 0, ...} refused, with the holder that `add_holder` describes
$lock_record
GET = 'GETEX'
if not is_id(ARGV[4]) then return wrong_argument(4, 'an id of 32 hex digits') end
local wrong = not_whole(3, 3) or ARGV[5] ~= '' and not_whole(5, 5) or not_whole(6, 6)
if wrong then return wrong_argument(wrong, 'a whole number') end

local refused = read_lock()
if refused then return refused end
if not is_held_by(ARGV[4], tonumber(ARGV[5])) then return refuse() end
local deadline_before, keep_before = deadline, keep
deadline = max(deadline, now + tonumber(ARGV[6]))
keep_for(tonumber(ARGV[3]))
if deadline > deadline_before or keep > keep_before then store() end
return grant()

-- Gives one hold of its owner back; the last one frees the lock. GET, and SET where it was done; then
-- `publish`, where somebody waits.
--
-- ARGV[3]  the operation's id, 32 hex digits
-- ARGV[4]  how long to remember it (us)
-- ARGV[5]  the owner, 32 hex digits
-- ARGV[6]  the fencing token of the grant, or empty for whichever it has
-- Reply    {0, now, 1, token, holds, deadline} done, now or before;
--          {0, now, 0, ...} refused, with the holder that `add_holder` describes
if not is_id(ARGV[3]) then return wrong_argument(3, 'an id of 32 hex digits') end
if not is_id(ARGV[5]) then return wrong_argument(5, 'an id of 32 hex digits') end
local wrong = not_whole(4, 4) or ARGV[6] ~= '' and not_whole(6, 6)
if wrong then return wrong_argument(wrong, 'a whole number') end

local refused = read_lock() or answered('r', ARGV[3])
if refused then return refused end
if not is_held_by(ARGV[5], tonumber(ARGV[6])) then return refuse() end
holds = holds - 1
if holds == 0 then free() end
local reply = commit('r', ARGV[3], tonumber(ARGV[4]))
wake_up()
return reply

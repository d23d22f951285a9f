-- Frees the lock, whoever holds it, where the named grant is the live one. GET, and SET where it was done; then
-- `publish`, where somebody waits.
--
-- ARGV[3]  the operation's id, 32 hex digits
-- ARGV[4]  how long to remember it (us)
-- ARGV[5]  the fencing token of the grant to break
-- Reply    {0, now, 1, token, holds, deadline} done, now or before;
--          {0, now, 0, ...} refused, with the holder that `add_holder` describes
if not is_id(ARGV[3]) then return wrong_argument(3, 'an id of 32 hex digits') end
local wrong = not_whole(4, 5)
if wrong then return wrong_argument(wrong, 'a whole number') end

local refused = read_lock() or answered('f', ARGV[3])
if refused then return refused end
if not is_live() or token ~= tonumber(ARGV[5]) then return refuse() end
free()
local reply = commit('f', ARGV[3], tonumber(ARGV[4]))
wake_up()
return reply

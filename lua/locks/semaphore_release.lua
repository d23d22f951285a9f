-- Gives the permits of a grant back. GETEX, and SET where it was done now; then `publish`, where somebody waits.
--
-- ARGV[3]  the permit's id, 32 hex digits
-- ARGV[4]  the fencing token of the grant, or empty for whichever it has
-- ARGV[5]  how long to remember it (us)
-- Reply    {0, now, 2, token, woke} done, now or before, and whether the waiters were told (1, or 0);
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
if not own then
  if given_back then return {0, now, RELEASED, given_back, 0} end
  return {0, now, NOT_HELD}
end
if #released == REMEMBERED then forget(unpack('<d', table.remove(released, 1), 33)) end
released[#released + 1] = pack(RELEASE, id, own.token, now + tonumber(ARGV[5]), own.bound)
commit(own.at)
return {0, now, RELEASED, own.token, wake_up()}

-- Gives the permits of a grant back. GET, and SET where it was done now; then `publish`, where somebody waits.
--
-- ARGV[3]  the permit's id, 32 hex digits
-- ARGV[4]  the fencing token of the grant, or empty for whichever it has
-- ARGV[5]  how long to remember it (us)
-- Reply    {0, now, 2, token, woke} done, now or before, and whether those who wait were told (1, or 0);
--          {0, now, 5} it is not held
$semaphore_record
if not is_id(ARGV[3]) then return wrong_argument(3, 'an id of 32 hex digits') end
local wrong = ARGV[4] ~= '' and not_whole(4, 4)
if wrong then return wrong_argument(wrong, 'a whole number, or empty') end
wrong = not_span(5, 5)
if wrong then return wrong_argument(wrong, 'from 1 to 2^50 us') end

local refused = read_semaphore()
if refused then return refused end
local at = position(grants, ARGV[3], tonumber(ARGV[4]))
if not at then
  at = position(released, ARGV[3], tonumber(ARGV[4]))
  if at then return {0, now, RELEASED, released[at].token, 0} end
  return {0, now, NOT_HELD}
end
local grant = table.remove(grants, at)
if #released == REMEMBERED then table.remove(released, 1) end
released[#released + 1] = {id = grant.id, token = grant.token, till = now + tonumber(ARGV[5])}
commit()
return {0, now, RELEASED, grant.token, wake_up()}

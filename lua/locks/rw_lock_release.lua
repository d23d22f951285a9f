-- Gives one hold of its owner back; the last one ends the grant. GETEX, and SET where it was done now; then
-- `publish`, where the grant ended and somebody waits.
--
-- ARGV[3]  r where it reads, w where it writes
-- ARGV[4]  the owner, 32 hex digits
-- ARGV[5]  the hold's id, 32 hex digits
-- ARGV[6]  how long to remember it (us)
-- Reply    {0, now, 2, token, holds, woke} done, now or before, with how often the owner held it then, and
--          whether the waiters were told (1, or 0);
--          {0, now, 6} it is not held
$rw_lock_record
GET = 'GETEX'
local wrong = wrong_owner()
if wrong then return wrong end
if not is_id(ARGV[5]) then return wrong_argument(5, 'an id of 32 hex digits') end
wrong = not_span(6, 6)
if wrong then return wrong_argument(wrong, 'from 1 to 2^50 us') end
local mode, owner, hold = ARGV[3], bytes_of(ARGV[4]), bytes_of(ARGV[5])

local refused = read_rw_lock()
if refused then return refused end
local grant, at = grant_of(mode, owner)
local hold_is_at = grant and hold_at(grant, hold)
if not hold_is_at then
  for _, one in ipairs(released) do
    if one.mode == mode and one.owner == owner and one.id == hold then
      return {0, now, RELEASED, one.token, one.holds, 0}
    end
  end
  return {0, now, NOT_HELD}
end
grant.holds = grant.holds - 1
grant.ids = sub(grant.ids, 1, hold_is_at - 1) .. sub(grant.ids, hold_is_at + 16)
if grant.holds == 0 then table.remove(grants, at) end
if #released == REMEMBERED then forget(table.remove(released, 1).bound) end
released[#released + 1] = {
  mode = mode, id = hold, owner = owner, token = grant.token, holds = grant.holds,
  till = now + tonumber(ARGV[6]), bound = grant.bound,
}
commit()
return {0, now, RELEASED, grant.token, grant.holds, grant.holds == 0 and wake_up() or 0}

-- Takes the lock where it is free, or holds it once more for its owner. GET, and SET where it was done.
--
-- ARGV[3]  the operation's id, 32 hex digits
-- ARGV[4]  how long to remember it (us)
-- ARGV[5]  the owner, 32 hex digits
-- ARGV[6]  the lease (us)
-- ARGV[7]  refuse after this time (us)
-- ARGV[8]  for how long the caller waits before it is back (us), 0 where it does not: where it is refused,
--          the record says so. SET then, too.
-- Reply    {0, now, 1, token, holds, deadline} done, now or before;
--          {0, now, 0, ...} refused, with the holder that `add_holder` describes;
--          {0, now, 2} it came after ARGV[7]
if not is_id(ARGV[3]) then return wrong_argument(3, 'an id of 32 hex digits') end
if not is_id(ARGV[5]) then return wrong_argument(5, 'an id of 32 hex digits') end
local wrong = not_whole(4, 4) or not_whole(6, 8)
if wrong then return wrong_argument(wrong, 'whole microseconds') end

local refused = read_lock() or answered('a', ARGV[3])
if refused then return refused end
if now > tonumber(ARGV[7]) then return {0, now, TOO_LATE} end

local lease_end = now + tonumber(ARGV[6])
if not is_live() then
  owner, holds, deadline, token = ARGV[5], 1, lease_end, max(now, token + 1)
elseif owner == ARGV[5] then
  holds, deadline = holds + 1, max(deadline, lease_end)
else
  local waits = tonumber(ARGV[8])
  if waits > 0 and wake < now + floor(waits / 2) then
    wake = now + waits
    store()
  end
  return refuse()
end
return commit('a', ARGV[3], tonumber(ARGV[4]))

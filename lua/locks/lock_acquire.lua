-- Takes the lock where it is free and nobody else is next, or holds it once more for its owner. GET, and SET where
-- it was done.
--
-- ARGV[3]   how long to remember it (us)
-- ARGV[4]   the owner, 32 hex digits
-- ARGV[5]   the hold's id, 32 hex digits
-- ARGV[6]   the lease (us)
-- ARGV[7]   refuse after this time (us)
-- ARGV[8]   for how long the caller waits before it is back (us, at most 2^50), 0 where it does not: where it is
--           refused, the record says so. SET then, too.
-- ARGV[9]   q where it waits in line, so that it gets a place in the queue, or keeps the one it has; or empty
-- ARGV[10]  who it is in words: up to $MAX_LABEL characters of visible ASCII but for | and >; or empty
-- Reply     {0, now, 1, token, holds, deadline} it is held, now or before: the grant as it stands;
--           {0, now, 0, ...} refused, with the holder that `add_holder` describes, which is the same owner where
--           it holds the lock as often as can be;
--           {0, now, 2, time} it came after ARGV[7], or that is no later than an acquire of a forgotten hold may arrive:
--           until then (us);
--           {0, now, 3, places, time} refused: it is free and others are next, so many before the owner, or all
--           of them where it has no place, and the first one's place ends then (us)
$lock_record
local wrong = not_whole(3, 3) or not_whole(6, 8)
if wrong then return wrong_argument(wrong, 'whole microseconds') end
if not is_id(ARGV[4]) then return wrong_argument(4, 'an id of 32 hex digits') end
if not is_id(ARGV[5]) then return wrong_argument(5, 'an id of 32 hex digits') end
local waits = tonumber(ARGV[8])
if waits > LONGEST then return wrong_argument(8, 'at most 2^50 us') end
if ARGV[9] ~= 'q' and ARGV[9] ~= '' then return wrong_argument(9, 'q or empty') end
if not ARGV[10] or #ARGV[10] > $MAX_LABEL or find(ARGV[10], '[^!-=?-{}~]') then
  return wrong_argument(10, 'a label of up to $MAX_LABEL characters')
end
local who, id = ARGV[4], ARGV[5]

local refused = read_lock()
if refused then return refused end
local not_after = tonumber(ARGV[7])
local till = not_after < $LATEST_TIME and not_after or 0
local is_known, behind, known_till = find(held, id .. ' (%d+)')
if is_known and is_held_by(who) then
  if tonumber(known_till) < till then
    held = sub(held, 1, is_known + 32) .. format('%.0f', till) .. sub(held, behind + 1)
    store()
  end
  return grant()
end
if now > not_after then return {0, now, TOO_LATE, forgotten} end
if is_known and not is_live() or find(ended, id) then return {OPERATION_REUSED} end
if not_after <= forgotten then return {0, now, TOO_LATE, forgotten} end

local lease_end = now + tonumber(ARGV[6])
local hold = format('%s %.0f', id, till)
local is_next = not queue[1] or queue[1].owner == who
if not is_live() and is_next then
  end_all('x', '')
  make_room()
  owner, held, deadline, token = who, hold, lease_end, max(now, token + 1)
  ahead, label = token - now, ARGV[10]
elseif is_held_by(who) and holds() < MAX_HOLDS then
  held, deadline = held .. ' ' .. hold, max(deadline, lease_end)
else
  local is_new = waits > 0 and wake < now + ceil(waits / 2)
  if is_new then wake = now + waits end
  if waits > 0 and ARGV[9] == 'q' and line_up(who, waits) then is_new = true end
  if is_new then store() end
  if is_live() then return refuse() end
  return {0, now, QUEUED, (place_of(who) or #queue + 1) - 1, queue[1].till}
end
leave(who)
commit(tonumber(ARGV[3]))
return grant()

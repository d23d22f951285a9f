-- Gives one hold of its owner back; the last one frees the lock. GETEX, and SET where it was done now; then
-- `publish`, where the lock is free and somebody waits.
--
-- ARGV[3]  how long to remember it (us)
-- ARGV[4]  the owner, 32 hex digits
-- ARGV[5]  the hold's id, 32 hex digits
-- Reply    {0, now, 4, token, holds} done, now or before, with how many holds were left then;
--          {0, now, 0, ...} refused, with the holder that `add_holder` describes
$lock_record
GET = 'GETEX'
if not is_id(ARGV[4]) then return wrong_argument(4, 'an id of 32 hex digits') end
if not is_id(ARGV[5]) then return wrong_argument(5, 'an id of 32 hex digits') end
if not_whole(3, 3) then return wrong_argument(3, 'a whole number') end
local id = ARGV[5]

local refused = read_lock()
if refused then return refused end
local of, left = match(ended, id .. ' %d+ (%d+) (%d+)')   -- only what was given back has three numbers
if not of then
  local at, behind, till
  if is_held_by(ARGV[4]) then at, behind, till = find(held, id .. ' (%d+)') end
  if not at then return refuse() end
  -- With the space before it, which the first one has here, too.
  held = sub(sub(' ' .. held, 1, at - 1) .. sub(held, behind + 1), 2)
  of, left = token, holds()
  remember(format('r%s %s %.0f %.0f', id, till, of, left))
  commit(tonumber(ARGV[3]))
end
wake_up()
return {0, now, RELEASED, tonumber(of), tonumber(left)}

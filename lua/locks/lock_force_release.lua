-- Frees the lock, whoever holds it, where the named grant is the live one. GETEX, and SET where it was done now; then
-- `publish`, where the lock is free and somebody waits.
--
-- ARGV[3]  how long to remember it (us)
-- ARGV[4]  the fencing token of the grant to break
-- Reply    {0, now, 4, token, 0} done, now or before;
--          {0, now, 0, ...} refused, with the holder that `add_holder` describes
$lock_record
GET = 'GETEX'
local wrong = not_whole(3, 4)
if wrong then return wrong_argument(wrong, 'a whole number') end
local broken = tonumber(ARGV[4])

local refused = read_lock()
if refused then return refused end
local of = format('%.0f', broken)
if not find(ended .. '|', '|f%x+ %d+ ' .. of .. '|') then
  if not is_live() or token ~= broken then return refuse() end
  end_all('f', ' ' .. of)
  commit(tonumber(ARGV[3]))
end
wake_up()
return {0, now, RELEASED, broken, 0}

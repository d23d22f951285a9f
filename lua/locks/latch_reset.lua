-- Forgets a latch. GETEX, and where there is one DEL, or SET where copies of its operations may still arrive; then
-- `publish`, where it was closed.
--
-- Reply    {0, now, 1, left} there was one, and what was left; {0, now, 0} there was none
$latch_record
GET = 'GETEX'
local refused = read_latch()
if refused then return refused end
if till == 0 then return {0, now, 0} end
local was = left
for i = 1, #done do forget(tonumber(match(done[i], '%d+$'))) end
if forgotten == 0 then
  redis.call('DEL', key)
else
  left, keep, till, done, latest = 0, 0, 0, {}, forgotten
  store()
end
if was > 0 then publish('') end
return {0, now, 1, was}

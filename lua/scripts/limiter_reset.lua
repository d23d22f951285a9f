-- Drops the record of a limiter, under whichever limit it was written. GET or LINDEX, and DEL.
--
-- ARGV[3]  the record's tag
-- Reply    {0, now, existed}: existed is 1 where there was a record, else 0
if not ARGV[3] or not find(ARGV[3], '^%u%d+$') then return wrong_argument(3, 'a tag such as F1') end
local record, refused
if sub(ARGV[3], 1, 1) == 'L' then
  record, refused = read('LINDEX', key, '0')
else
  record, refused = read('GET', key)
end
if refused then return refused end
if not record then return {0, now, 0} end
refused = unlike(record, ARGV[3])
if refused then return refused end
redis.call('DEL', key)
return {0, now, 1}

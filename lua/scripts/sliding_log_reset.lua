-- Drops the record of a sliding log, under whichever limit it was written.
--
-- ARGV[3]  L1
-- Reply    {0, now, existed}: existed is 1 where there was a record, else 0
if ARGV[3] ~= 'L1' then return wrong_argument(3, 'L1') end
local record, refused = read('LINDEX', key, '0')
if refused then return refused end
if not record then return {0, now, 0} end
refused = unlike(record, ARGV[3])
if refused then return refused end
redis.call('DEL', key)
return {0, now, 1}

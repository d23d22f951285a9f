-- Stores the limit in ARGV with the record, for all to follow: see `any_record`. What was used under another
-- limit is converted, which `conversion` describes. Writes as `limiter_acquire` does, where it is stored; DEL.
--
-- ARGV[3]  k  keep what is used, blocks, and as far as the limit is the same requests
--          a  the same, where no limit is stored
--          f  forget all of it
-- ARGV[4]  whose use counts, o or c, and for how long it is kept after each write (us), as o:60000000
-- ARGV[5]  and on: the limit, as `limiter_acquire` takes it
-- Reply    {0, now, stored}: stored is 1 where it was stored, else 0
$any_limit
local mode = ARGV[3]
if not find(mode or '', '^[kaf]$') then return wrong_argument(3, 'k, a or f') end
local scope, keep = match(ARGV[4] or '', '^([oc]):(%d+)$')
keep = tonumber(keep)
if not keep or keep < 1 or keep > LONGEST then return wrong_argument(4, 'o or c, a colon and up to 2^50 us') end
local behind, refused = read_limit(5)
if refused then return refused end
if ARGV[behind] or follows then return wrong_argument(behind, 'absent') end

sets = true
if mode == 'f' then
  local record, _, other = read_any()
  if other then return other end
  if any_is_off(parts) then return {CLOCK_OFF, now} end
  if record then redis.call('DEL', key) end
end
refused = read_record()
if refused then return refused end
if mode == 'a' and policy then return {0, now, 0} end
if is_off then return told({CLOCK_OFF, now}) end
policy = {scope = scope, keep = keep}
store()
return {0, now, 1}

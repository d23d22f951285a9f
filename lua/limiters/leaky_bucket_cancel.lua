-- Gives the turn of an admitted request back, as if it had never been asked for, where the record is as that
-- request left it and its turn has not come. TYPE, GETEX or LTRIM and LINDEX, and SET with an expiry where it is given
-- back.
--
-- ARGV[3]  the record's tag, then the configuration: three numbers
-- ARGV[7]  when the turn is (us), the state before the request was admitted (deficit, last), and the one after
-- Reply    {0, now, outcome}: 0 it is given back, 1 others were admitted since, or the key was adjusted, reset
--          or put under another limit, or knows of reservations, 2 its turn has come. Only the first changes anything.
$prelude
$packed
$algorithms
$requests
$any_record
GET = 'GETEX'
if ARGV[3] ~= 'Q1' then return wrong_argument(3, 'Q1') end
local wrong = not_whole(4, 11)
if wrong then return wrong_argument(wrong, 'a whole number') end
local head, after = table.concat(ARGV, ' ', 3, 6) .. ' ', ARGV[10] .. ' ' .. ARGV[11]
local turn, before = tonumber(ARGV[7]), ARGV[8] .. ' ' .. ARGV[9]

local record, _, refused = read_any()
if refused then return refused end
if policy then return {LIMIT_IS_STORED} end
local state
-- With reservations behind it a state is not told as it was stored, so that nothing can be given back exactly.
if record and sub(record, 1, #head) == head and not find(record, '|r') then
  state, refused = read_state(record, #head + 1)
  if refused then return refused end
end
-- First, so that it does not matter whether the record is still there.
if now >= turn then return {0, now, 2} end
if state ~= after then return {0, now, 1} end

local counter = algorithms.Q1(tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]))
local deficit, last = tonumber(ARGV[8]), tonumber(ARGV[9])
local keep = deficit > 0 and counter.kept_until(deficit, last) or counter.fresh_at(deficit, last)
local behind, till = remembered()
redis.call('SET', key, packed(head .. before .. behind), 'PX', ttl_ms(max(keep, till)))
return {0, now, 0}

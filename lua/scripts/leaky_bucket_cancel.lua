-- Gives the turn of an admitted request back, as if it had never been asked for, where nobody was admitted
-- since and its turn has not come. GET, and SET with an expiry where it is given back.
--
-- ARGV[3]  the record's tag, then the configuration, which the machine's part describes
-- ARGV[7]  the request's cost, then the state that its admission left
-- Reply    {0, now, outcome}: 0 it is given back, 1 others were admitted since, or the key was reset, 2 its
--          turn has come. Only the first changes anything.
local first, last = 3, 3 + machine.config
if ARGV[3] ~= machine.tag then return wrong_argument(3, machine.tag) end
local wrong = not_whole(first + 1, last + 3)
if wrong then return wrong_argument(wrong, 'a whole number') end

local head, refused, state = read_counter(first, last)
if refused then return refused end
if state and not find(state, machine.state) then return {DAMAGED} end

local settle, _, fresh_at, give_back = machine.new(tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]))
local deficit, at = give_back(tonumber(ARGV[7]), settle(tonumber(ARGV[8]), tonumber(ARGV[9])))
if not deficit then return {0, now, 2} end
-- Only an admission changes a state.
if state ~= ARGV[8] .. ' ' .. ARGV[9] then return {0, now, 1} end

local behind, till = remembered()
local record = head .. format(machine.format, deficit, at) .. behind
redis.call('SET', key, record, 'PX', ttl_ms(max(fresh_at(deficit, at), till)))
return {0, now, 0}

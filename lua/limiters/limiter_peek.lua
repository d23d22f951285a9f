-- Tells what `limiter_acquire` would tell for one cost; writes nothing.
--
-- ARGV[3]  and on: the limit, as `limiter_acquire` takes it, then the cost, which may be 0
-- Reply    as of `limiter_acquire`
$any_limit
local cost, refused = read_limit(3)
if refused then return refused end
if not_whole(cost, max(cost, #ARGV)) or #ARGV > cost then return wrong_argument(cost, 'one whole number') end
only_asks = true
refused = read_record()
if refused then return refused end

if is_off then return told({CLOCK_OFF, now}) end
local reply = blocked and {BLOCKED, now, blocked} or {0, now}
add_states(reply)
add_freed_at(reply, tonumber(ARGV[cost]))
if broken then return {DAMAGED} end
return told(reply)

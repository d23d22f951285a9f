-- Tells what `limiter_acquire` would tell for one cost; writes nothing.
--
-- ARGV[3]  and on: the limit and the cost, as `limiter_acquire` takes them; the cost may be 0
-- Reply    as of `limiter_acquire`
$any_limit
local at, refused = read_limit(3)
if refused then return refused end
local cost, by_part = read_cost(at)
if not cost or #ARGV > at then return wrong_argument(at, 'one whole number, or one for each part') end
only_asks = true
refused = read_record() or take_costs(by_part)
if refused then return refused end

if is_off then return told({CLOCK_OFF, now}) end
local reply = blocked and {BLOCKED, now, blocked} or {0, now}
add_states(reply)
add_freed_at(reply, cost)
if broken then return {DAMAGED} end
return told(reply)

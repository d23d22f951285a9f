-- Settles a reservation: its true cost is charged instead of the estimate, as if it had been when it was made. What is
-- above the estimate is charged now, as a penalty is. Writes as `limiter_acquire` does, where it was settled by this call
-- and the record knows of it or something was charged; GET of the second key, and SET where it was settled by this call.
--
-- KEYS[2]  the key of the reservation, as `limiter_reserve` takes it
-- ARGV[3]  until when it can be settled (us), as it was told
-- ARGV[4]  the true cost, 0 to cancel it; or one for each part, as `limiter_acquire` takes a cost
-- ARGV[5]  and on: the limit, as `limiter_acquire` takes it
-- Reply    {0, now, 1}, how much was given back or charged on top (by the part where that is most), until
--          when the key is blocked, else 0, and the rest of `limiter_adjust`'s reply: it was settled, by
--          this call or, with the same cost, before. Else nothing is changed, and it is {0, now, status}:
--          0 it is not known, 2 it was settled with another cost, 3 it has expired.
$any_limit
$penalty
GET = 'GETEX'
local UNKNOWN, SETTLED, ALREADY_SETTLED, EXPIRED = 0, 1, 2, 3
local actual, by_part = read_cost(4)
local wrong = not_whole(3, 3) or not actual and 4
if wrong then return wrong_argument(wrong, 'a whole number') end
local till = tonumber(ARGV[3])
if actual > EXACT then return wrong_argument(4, 'at most 2^53 - 1') end
local behind, refused = read_limit(5)
if refused then return refused end
if ARGV[behind] then return wrong_argument(behind, 'absent') end
refused = read_record() or take_costs(by_part) or read_reservation()
if refused then return refused end

if not reservation then return told({0, now, now < till and UNKNOWN or EXPIRED}) end
if not reservation.is_open then
  if not reservation.is_own or not is_reserved(actual) then return told({0, now, ALREADY_SETTLED}) end
  return told({0, reservation.made, SETTLED, unpack(reservation.numbers, reservation.told)})
end

if is_off then return told({CLOCK_OFF, now}) end
local costs, estimates, less, more, most = {}, {}, {}, {}, 0
for i = 1, #parts do
  costs[i], estimates[i] = cost_of(i, actual), reserved(i)
  local kept = parts[i].lease and 0 or costs[i]   -- of places nothing stays charged
  less[i], more[i] = max(0, estimates[i] - kept), max(0, kept - estimates[i])
  most = max(most, more[i])
end
local is_by_part = each or reservation.is_by_part
if not is_by_part then costs, estimates = {actual}, reservation.costs end
local given = close_reservation(less)
each = more
local done = max(given or 0, most > 0 and penalize(most) or 0)
each = nil
local reply = {0, now, SETTLED, done, blocked or 0}
add_states(reply)
add_freed_at(reply, 1)
if broken then return {DAMAGED} end
-- What is none of the record's now leaves it as it is.
if done > 0 or given then store() end
store_reservation(is_by_part and 3 or 1, 2 * reservation.till - reservation.made, costs, estimates, {unpack(reply, 4)})
return told(reply)

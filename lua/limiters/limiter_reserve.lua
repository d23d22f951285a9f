-- Admits one request, and charges an estimate of its cost, which `limiter_settle` replaces by the true one. Commands as of
-- `limiter_acquire`; GET of the second key, and SET where it is admitted.
--
-- KEYS[2]  the key of the reservation: the limiter's, a colon and the id
-- ARGV[3]  the id, a colon, and for how long it can be settled (us)
-- ARGV[4]  and on: the limit, then the estimate, as `limiter_acquire` takes the limit and one cost; or, to renew a
--          reservation, = and until when it can be settled (us): with places, at most a lease from now
-- Reply    as of `limiter_acquire`, with the states settled; for an id that was reserved before, the reply that it got.
--          Of a renewal {0, now, 1} and until when it can be settled now; or {0, now, 2} for one that was settled, and
--          {0, now, 0} for one that is not there
$any_limit
if ARGV[3] == '' then return wrong_argument(3, 'an id, a colon and up to 2^50 us') end
local at, refused = read_limit(4)
if refused then return refused end
local till = tonumber(match(ARGV[at] or '', '^=(%d+)$'))
local cost, by_part = read_cost(at)
if not till and (not cost or cost < 1) or #ARGV > at then return wrong_argument(at, 'one cost, at least 1 for a part') end
if till then GET = 'GETEX' end
refused = read_request(at) or read_record() or take_costs(by_part, true)
  or not till and remember > (shortest_lease() or LONGEST) and {$HOLD_TOO_LONG} or read_reservation()
if refused then return refused end

if till then
  if not reservation then return told({0, now, 0}) end
  if not reservation.is_open then return told({0, now, 2}) end
  local lease, numbers = shortest_lease(), reservation.numbers
  till = math.min(till, reservation.made + LONGEST, now + (lease or LONGEST))
  if till <= reservation.till then return told({0, now, 1, reservation.till}) end
  if lease and reservation.is_own then
    if is_off then return told({CLOCK_OFF, now}) end
    local moved = keep_places()
    id = nil   -- it is no request that is remembered
    if moved or converted then store() end
  end
  numbers[3] = till
  local record = 'R1:' .. struct.pack('<' .. string.rep('d', #numbers), unpack(numbers))
  redis.call('SET', KEYS[2], record, 'PX', ttl_ms(2 * till - reservation.made))
  return told({0, now, 1, till})
end

local reply = {0, now}
if reservation then
  if not reservation.is_own or not reservation.is_open or not is_reserved(cost)
      or reservation.till - reservation.made ~= remember then
    return {OPERATION_REUSED}
  end
  reply = {0, reservation.made, unpack(reservation.numbers, reservation.told)}
  for _ = 1, #logs do reply[#reply + 1] = 0 end
  return told(reply)
end

if is_off then return told({CLOCK_OFF, now}) end
if blocked then reply = {BLOCKED, now, blocked} end
local made_from = {}
add_states(made_from)
for _, number in ipairs(made_from) do reply[#reply + 1] = number end
add_freed_at(reply, cost)
local admitted = fits(cost) and not blocked
if admitted then charge(cost) end
if broken then return {DAMAGED} end
local place = admitted and reserve()
id = nil   -- it is no request that is remembered
if admitted or converted then store() end
if admitted then store_reservation(each and 2 or 0, now + remember, each or {cost}, place, made_from) end
return told(reply)

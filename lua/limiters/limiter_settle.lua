-- Settles a reservation: its true cost is charged instead of the estimate, as if it had been when it was
-- made. What is above the estimate is charged now, as a penalty is. Writes as `limiter_acquire` does,
-- where it was settled by this call.
--
-- ARGV[3]  the reservation's id
-- ARGV[4]  until when it can be settled (us), as it was told
-- ARGV[5]  the true cost, 0 to cancel it
-- ARGV[6]  and on: the limit, as `limiter_acquire` takes it
-- Reply    {0, now, 1}, how much was given back or charged on top (by the part where that is most), until
--          when the key is blocked, else 0, and the rest of `limiter_adjust`'s reply: it was settled, by
--          this call or, with the same cost, before. Else nothing is changed, and it is {0, now, status}:
--          0 it is not known, 2 it was settled with another cost, 3 it has expired.
$any_limit
$penalty
local UNKNOWN, SETTLED, ALREADY_SETTLED, EXPIRED = 0, 1, 2, 3
id = ARGV[3]
if not is_id(id) then return wrong_argument(3, '32 hex digits') end
local wrong = not_whole(4, 5)
if wrong then return wrong_argument(wrong, 'a whole number') end
local till, actual = tonumber(ARGV[4]), tonumber(ARGV[5])
if actual > EXACT then return wrong_argument(5, 'at most 2^53 - 1') end
local behind, refused = read_limit(6)
if refused then return refused end
if ARGV[behind] then return wrong_argument(behind, 'absent') end
refused = read_record()
if refused then return refused end

if not reserved then return told({0, now, now < till and UNKNOWN or EXPIRED}) end
if not reserved.places then
  if actual ~= reserved[2] then return told({0, now, ALREADY_SETTLED}) end
  return told({0, reserved[3], SETTLED, unpack(reserved, 4)})
end

if is_off then return told({CLOCK_OFF, now}) end
local index
for i, reservation in ipairs(reservations) do
  if reservation == reserved then index = i end
end

-- Gives back up to `units` of what a counter was charged for it. Those that were made later have so much
-- less before them; those that were made earlier have no more than this one has.
local function give_back(number, units)
  local part, at = parts[number], reserved.places + 2 * number - 1
  local upto, when = reserved[at], reserved[at + 1]
  local given = math.min(units * part.unit, upto)
  for i, other in ipairs(reservations) do
    if other.places and other[at + 1] == when then
      other[at] = i < index and math.min(other[at], upto - given) or max(0, other[at] - given)
    end
  end
  local field = counted(part, when)
  if field then part.state[field] = part.state[field] - given end
  return ceil(given / part.unit)
end

local cost, done = reserved[2], 0
if actual > cost then
  done = penalize(actual - cost)
else
  local entry
  for i, part in ipairs(parts) do
    if part.is_log then
      entry = reserved[reserved.places + 2 * i]
    else
      done = max(done, give_back(i, cost - actual))
    end
  end
  if entry then done = max(done, cut_entries(logs, entry, cost - actual)) end
end

local reply = {0, now, SETTLED, done, blocked or 0}
add_states(reply)
add_freed_at(reply, 1)
if broken then return {DAMAGED} end
-- It is known for as long as it could have been open.
reservations[index] = {id = id, now + reserved[1] - reserved[3], actual, now, unpack(reply, 4)}
id = nil
store()
return told(reply)

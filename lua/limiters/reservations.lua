-- Reservations: requests that were charged an estimate, until their true cost is known. They stand
-- behind the requests of a record, in the order in which they were made, each as
--   |r0000000000000000000000000000c0de 1763700060123456 800 1763700000123456 ...
-- that is r and its id, until when it can be settled (us), the estimate, the time that was replied (us),
-- and the numbers that the reply was made from, as of a request; then two more for each part:
--   upto   how much was charged up to this reservation, itself included, of what the part counts there
--          now: no more can be given back, since the rest was charged later; 0 of a log
--   when   of a log the time of its entry (us), of a sliding window the number of the window, else 0
-- One that was settled is the same with an s: until when that is known, the true cost, and of the reply
-- the time and the numbers, as of an adjustment.
local MOST_RESERVATIONS, TOO_MANY = $MAX_RESERVATIONS, $TOO_MANY_RESERVATIONS
local reservations = {}   -- those that are known now: their numbers, their `id`, and of an open one in
                          -- `places` how many numbers stand before the parts'
local reserved            -- the one with this request's id, if it is among them

-- The numbers from `from` on, as a record has them.
local function as_text(list, from)
  local numbers = {}
  for i = from, #list do numbers[#numbers + 1] = format('%.0f', list[i]) end
  return table.concat(numbers, ' ')
end

-- Reads one of a record whose parts are `all`, or tells that it cannot be read.
local function read_reservation(text, all, most, adjusted)
  local letter, name, rest = match(text, '^([rs])(%x+)( .*)$')
  local left, count = string.gsub(rest or '', ' %d+', '')
  local reservation = {id = name, places = letter == 'r' and 3 + most or nil}
  if not is_id(name) or left ~= '' then return false end
  if count ~= (letter == 'r' and 3 + most + 2 * #all or 3 + adjusted) then return false end
  for number in string.gmatch(rest, '%d+') do
    number = tonumber(number)
    if number > EXACT then return false end
    reservation[#reservation + 1] = number
  end
  local till, cost, made = unpack(reservation, 1, 3)
  if till < made or letter == 'r' and cost < 1 then return false end
  if now < till then
    reservations[#reservations + 1] = reservation
    if name == id then reserved, known = reservation, text end
  end
  return true
end

-- Reads them all; what else stands behind the state, or nothing where one cannot be read.
local function read_reservations(behind, all, most, adjusted)
  local count, sound = 0, true
  local rest = string.gsub(behind, '|([rs][^|]*)', function(text)
    count = count + 1
    sound = sound and count <= MOST_RESERVATIONS and read_reservation(text, all, most, adjusted)
    return ''
  end)
  return sound and rest or nil
end

-- Which number of the part's state counts what was charged `when`, if any still does.
local function counted(part, when)
  if part.is_log then return end
  if not part.previous then return part.counted end
  local windows = floor(part.state[part.latest] / part.window) - when
  if windows == 0 then return part.counted end
  if windows == 1 then return part.previous end
end

-- What no part counts any more is not given back either.
local function lower_reservations(all)
  for _, reservation in ipairs(reservations) do
    for i = 1, reservation.places and #all or 0 do
      local upto = reservation.places + 2 * i - 1
      local field = counted(all[i], reservation[upto + 1])
      reservation[upto] = math.min(reservation[upto], field and all[i].state[field] or 0)
    end
  end
end

-- Adds this request, which was just charged to all parts; false where there is no room for it.
-- `told`: the numbers that its reply is made from.
local function reserve(cost, told, all)
  if #reservations == MOST_RESERVATIONS then
    local oldest
    for i = #reservations, 1, -1 do
      if not reservations[i].places then oldest = i end
    end
    if not oldest then return false end
    table.remove(reservations, oldest)
  end
  local reservation = {id = id, now + remember, cost, now, unpack(told)}
  reservation.places = #reservation
  for _, part in ipairs(all) do
    local when = 0
    if part.is_log then when = last end
    if part.previous then when = floor(part.state[part.latest] / part.window) end
    local field = counted(part, when)
    reservation[#reservation + 1] = field and part.state[field] or 0
    reservation[#reservation + 1] = when
  end
  reservations[#reservations + 1] = reservation
  return true
end

-- What stands behind the requests of a record that is written now, and until when any of it matters.
local function reservations_behind(all)
  local behind, till = {}, 0
  lower_reservations(all)
  for i, reservation in ipairs(reservations) do
    local letter = reservation.places and '|r' or '|s'
    behind[i] = letter .. reservation.id .. ' ' .. as_text(reservation, 1)
    till = max(till, reservation[1])
  end
  return table.concat(behind), till
end

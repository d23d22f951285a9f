-- Reservations: requests that were charged an estimate, until their true cost is known. Behind the requests of a limiter's
-- record stands, if any were made,
--   |r 680 49374 2 880 2 1 1 680 2 1 200
-- that is r; of each bucket its lowest level since the latest reservation was made or settled; the generation, which is
-- another one once the record was reset, came under another limit, or gave back of a window; how many reservations
-- it had; and of each bucket how high its steps are together, how many they are, and each: see `steps`. A log alone has none.
--
-- Each reservation has a record of its own, packed as a counter's is:
--   R1 0 1763700000123456 1763700060123456 800 ...
-- that is 0, or 1 once it was settled; when it was made or settled (us); until when it can be settled, or that is known; the
-- estimate or the true cost; the letters of the limit's tags as one number, as `packed` has them, and the configuration of
-- each; while it is open the generation, or 0, the number in it, and of each part the window that it is in (when a fixed one
-- began, the number of a sliding one, when one of a calendar ends), the time of a log's entry, or 0; once it was settled the
-- estimate; and the numbers that the reply was made from, as of a request or an adjustment. Costs by part have 2 more in the
-- first place, the number of parts in that of the estimate, and the cost of each behind it; and there are as many estimates
-- once it was settled. It lives for twice as long as it can be settled, so that an answer is known for at least that long.
$steps
$take_steps
$merge_steps
$add_step
$settle_step
local generation, made   -- of the record: nothing where it has no reservations
local as_read            -- what stands behind the lowest levels, while none is made or settled
local reservation        -- see `read_reservation`

local function buckets_of(all)
  local found = {}
  for _, part in ipairs(all) do
    if part.is_bucket then found[#found + 1] = part end
  end
  return found
end

-- Reads what stands behind a state, whose parts are `all`, and takes it away; nothing where it cannot be read.
function read_reservations(behind, all)
  local place = find(behind, '|r[^|]*$')
  if not place then return behind end
  local numbers, text, sound = {}, sub(behind, place + 2), #logs_of(all) < #all
  if string.gsub(text, ' %d+', '') ~= '' then return end
  for number in string.gmatch(text, '%d+') do
    numbers[#numbers + 1] = tonumber(number)
    sound = sound and tonumber(number) <= EXACT
  end
  local buckets = buckets_of(all)
  generation, made = numbers[#buckets + 1], numbers[#buckets + 2]
  place, sound = place - 1, sound and made and generation > 0
  local at = #buckets + 3
  for i, part in ipairs(buckets) do
    local count = numbers[at + 1]
    if not sound or not count or count > $EXACT_RESERVATIONS or not numbers[at + 1 + 3 * count] then return end
    part.low, part.total, part.steps = numbers[i], numbers[at], ''
    local last, total = -1, 0
    for step = at + 2, at + 3 * count, 3 do
      local first, height = numbers[step], numbers[step + 2]
      sound = sound and first > last and first <= made and height > 0
      last, total, part.steps = first, total + height, part.steps .. struct.pack('<ddd', first, numbers[step + 1], height)
    end
    sound, at = sound and total == part.total, at + 2 + 3 * count
  end
  as_read = not find(text, ' 0%d') and match(text, string.rep(' %d+', #buckets) .. '(.*)')
  return sound and at == #numbers + 1 and sub(behind, 1, place) or nil
end

-- The buckets are as low now as they are.
function lower_reservations()
  for _, part in ipairs(generation and buckets_of(parts) or {}) do
    part.low = math.min(part.low, part.state[part.counted])
  end
end

local function fold(part)
  local left
  as_read = nil
  part.steps, left, left, left = take_steps(part.steps, #part.steps / 24, max(0, part.total - part.low))
  part.total = math.min(part.total, part.low)
end

-- The limit as a reservation's record has it.
local function limit_numbers()
  local letters, numbers = 0, {}
  for i, part in ipairs(parts) do
    letters = letters + string.byte(part.tag) % 32 * 32 ^ (i - 1)
    for number in string.gmatch(part.name, ' (%d+)') do numbers[#numbers + 1] = tonumber(number) end
  end
  return struct.pack('<' .. string.rep('d', #numbers + 1), letters, unpack(numbers))
end

-- Reads the reservation under the second key, where it counts now; or why it cannot be read.
local function read_reservation()
  local record, refused = read('GET', KEYS[2])
  if refused then return refused end
  if not record then return end
  local version = match(record, '^R(%d+)[: ]')
  if not version then return {OTHER_KIND} end
  if version ~= '1' then return {OTHER_VERSION} end
  local numbers = {}
  for at = 4, #record, 8 do numbers[#numbers + 1] = at + 7 <= #record and struct.unpack('<d', record, at) or -1 end
  for _, number in ipairs(numbers) do
    if not (number >= 0 and number <= EXACT and number % 1 == 0) then return {DAMAGED} end
  end
  if sub(record, 3, 3) ~= ':' or not numbers[5] or numbers[3] < numbers[2] then return {DAMAGED} end
  if now >= numbers[3] then return end
  local is_by_part, is_open, costs, count = numbers[1] >= 2, numbers[1] % 2 == 0, {numbers[4]}, 0
  if is_by_part then
    count = numbers[4]
    if count < 1 or count > $MAX_LIMITS or not numbers[5 + count] then return {DAMAGED} end
    costs = {unpack(numbers, 5, 4 + count)}
  end
  local limit = limit_numbers()
  local is_own, at = sub(record, 36 + 8 * count, 35 + 8 * count + #limit) == limit, 5 + count + #limit / 8
  local most, adjusted = told_numbers(parts)
  if is_open then most = most + 2 + #parts else most = max(1, count) + adjusted end
  if is_own and (#numbers - at + 1 ~= most or is_by_part and count ~= #parts) then return {DAMAGED} end
  reservation = {record = record, is_own = is_own, is_open = is_open, made = numbers[2], till = numbers[3], costs = costs,
    is_by_part = is_by_part}
  if is_open then
    reservation.generation, reservation.number, reservation.windows = numbers[at], numbers[at + 1], at + 1
    at = at + 2 + #parts
  else
    at = at + max(1, count)
  end
  reservation.numbers, reservation.told = numbers, at
end

-- What the reservation has for a part.
local function reserved(at)
  return reservation.is_by_part and (reservation.costs[at] or 0) or reservation.costs[1]
end

-- Whether it has this cost, or that in `each`.
local function is_reserved(cost)
  for i = 1, #parts do
    if cost_of(i, cost) ~= reserved(i) then return false end
  end
  return true
end

-- Writes it, open or settled (0 or 1, by part 2 or 3), with the cost or that of each part; where it is counted or the estimates; and the numbers that
-- its reply is made from. Once it was settled its expiry stays.
local function store_reservation(settled, till, costs, place, told)
  local numbers = {}
  for _, number in ipairs(place) do numbers[#numbers + 1] = number end
  for _, number in ipairs(told) do numbers[#numbers + 1] = number end
  if settled >= 2 then costs = {#costs, unpack(costs)} end
  local record = 'R1:' .. struct.pack('<ddd' .. string.rep('d', #costs), settled, now, till, unpack(costs)) .. limit_numbers()
    .. struct.pack('<' .. string.rep('d', #numbers), unpack(numbers))
  if settled % 2 == 1 then
    redis.call('SET', KEYS[2], record, 'KEEPTTL')
  else
    redis.call('SET', KEYS[2], record, 'PX', ttl_ms(2 * till - now))
  end
end

-- Adds the reservation of this id, which was just charged; where it is counted. A part that was not charged has no step.
local function reserve()
  local place = {0, 0}
  if #logs < #parts then
    if not generation then
      generation, made = tonumber(sub(id, -12), 16) + 1, 0
      for _, part in ipairs(parts) do part.low, part.total, part.steps = 0, 0, '' end
    end
    made, as_read = made + 1, nil
    place = {generation, made}
  end
  for i, part in ipairs(parts) do
    if part.is_bucket and cost_of(i, 1) > 0 then
      local level = part.state[part.counted]
      fold(part)
      part.steps = add_step(part.steps, made, level - part.total)
      part.low, part.total = level, level
    end
    place[#place + 1] = part.is_log and last or part.window_of and part.window_of(unpack(part.state)) or 0
  end
  return place
end

-- Which number of the part's state counts what was charged in a window, if any still does.
local function counted(part, window)
  if part.is_bucket then return part.counted end
  local windows = part.window_of(unpack(part.state)) - window
  if windows == 0 then return part.counted end
  if windows == 1 then return part.previous end
end

-- The shortest lease of the parts, if any has places that are given back.
local function shortest_lease()
  local shortest
  for _, part in ipairs(parts) do
    if part.lease then shortest = math.min(shortest or part.lease, part.lease) end
  end
  return shortest
end

-- Keeps the places of the record's own reservation for another lease; whether any state has changed.
local function keep_places()
  if reservation.generation ~= (generation or 0) then return end
  local changed = false
  for i, part in ipairs(parts) do
    local at, state = reservation.windows + i, part.state
    local running = part.lease and part.window_of(unpack(state))
    if running and running == reservation.numbers[at] + 1 then
      local places = math.min(reserved(i), state[part.previous])
      if places > 0 then
        state[part.previous], state[part.counted] = state[part.previous] - places, state[part.counted] + places
        reservation.numbers[at], changed = running, true
      end
    end
  end
  return changed
end

-- Ends the reservation, and gives back up to as many units as `less` has for each part of what was charged for it: how much,
-- of the part where that is most; nothing where nothing has changed.
local function close_reservation(less)
  if not reservation.is_own or reservation.generation ~= (generation or 0) then return end
  local most, changed, entry, cut = 0, false
  for i, part in ipairs(parts) do
    local window = reservation.numbers[reservation.windows + i]
    local field = not part.is_log and counted(part, window)
    if part.is_log then
      entry, cut = window, less[i]   -- the same for all logs
    elseif field then
      local level, given = part.state[field], less[i] * part.unit
      if not part.is_bucket or reserved(i) == 0 then
        given = math.min(given, level)
      else
        fold(part)
        local left, is_counted
        part.steps, left, is_counted = settle_step(part.steps, reservation.number, given)
        given, changed = given - left, changed or is_counted
        part.low, part.total = level, part.total - given   -- it is lowered when it is written
      end
      part.state[field] = level - given
      most = max(most, ceil(given / part.unit))
    end
  end
  if entry then most = max(most, cut_entries(logs, entry, cut)) end
  if changed or most > 0 then return most end
end

-- What stands behind the requests of a record that is written now.
function reservations_behind()
  if not generation then return '' end
  local lows, behind = '', as_read or format(' %.0f %.0f', generation, made)
  lower_reservations()
  for _, part in ipairs(buckets_of(parts)) do
    lows = lows .. ' ' .. format('%.0f', part.low)
    if not as_read then
      local count = #part.steps / 24
      local numbers = {part.total, count, struct.unpack('<' .. string.rep('d', 3 * count), part.steps)}
      numbers[3 * count + 3] = nil   -- where the next one would be
      behind = behind .. ' ' .. as_text(numbers, 1)
    end
  end
  return '|r' .. lows .. behind
end

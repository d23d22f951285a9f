-- What stands behind the state of any limiter's record, each after a |:
--   |blocked 1763700060123456
-- first, where the key is blocked: until then (us) nothing is admitted; and the requests with an id,
-- which can be sent again when a reply was lost (D11). A record remembers those that did something,
-- the last eight of them, so that the next time the same reply is given and nothing is charged:
--   |q 1763700060123456 3|0000000000000000000000000000c0de 1763700060123456 3 1763700000123456 ...
-- that is until when any is remembered (us), or later; the place among them, from 0, that the next one
-- takes; and each in its place: its id (32 hex digits), until when it is remembered (us), its cost, such as
-- 3 or by part +1+950, or of an adjustment its letter and amount such as t3 or f+1+950, the time that was replied (us), and the numbers
-- that the reply was made from: see the acquire scripts and limiter_adjust. All are dropped once none
-- is remembered. Of a counter by itself with no more behind its state, `fast_requests` reads them, too.
local REMEMBERED = $REMEMBERED_REQUESTS
local id, remember    -- of this request, if it has an id; remember in us
local requests, kept, next_one = {}, 0, 0   -- those of the record, as text; until when; where the next one goes
local known           -- this one, if it is among them
local blocked         -- until when the key is, if it is now

local each   -- the cost of each part, of a request with one for each; nothing where one counts for all parts

-- Reads a cost in ARGV: a whole number, or one for each part, each with a + before it, such as +1+950: the largest of
-- them, and all; nothing where it is wrong.
local function read_cost(at)
  local text, costs = ARGV[at] or '', {}
  if sub(text, 1, 1) ~= '+' then return not not_whole(at, at) and tonumber(text) or nil end
  if string.gsub(text, '%+%d+', '') ~= '' then return end
  local most = 0
  for number in string.gmatch(text, '%d+') do
    costs[#costs + 1] = tonumber(number)
    most = max(most, costs[#costs])
  end
  return most, costs
end

-- A cost as records have it.
local function cost_text(cost)
  if not each then return format('%.0f', cost) end
  local text = ''
  for _, number in ipairs(each) do text = text .. '+' .. format('%.0f', number) end
  return text
end

-- Reads ARGV[3]: empty, or the id and how long to remember it (us), as 'id:remember'. Then
-- ARGV[cost], the request's cost, is the last argument.
local function read_request(cost)
  if ARGV[3] == '' then return end
  id, remember = match(ARGV[3] or '', '^(%x+):(%d+)$')
  remember = tonumber(remember or 0)
  if not is_id(id) or remember < 1 or remember > LONGEST or #ARGV > cost then
    return wrong_argument(3, 'empty or, with one cost, 32 hex digits, a colon and up to 2^50 us')
  end
end

-- Reads what stands behind a state, from the first | on; or why it cannot be read. The reply to a
-- request was made from `most` numbers, that to an adjustment from `adjusted`.
local function read_behind(text, most, adjusted)
  local till = match(text, '^|blocked (%d+)')
  if till then
    text = sub(text, #'|blocked ' + #till + 1)
    till = tonumber(till)
    if till > EXACT then return {DAMAGED} end
    if now < till then blocked = till end
  end
  if text == '' then return end
  local place, from
  till, place, from = match(text, '^|q (%d+) (%d)()|')
  if not till then return {DAMAGED} end
  kept, next_one = tonumber(till), tonumber(place)
  local is_newer
  for request in string.gmatch(sub(text, from), '|([^|]*)') do
    local name, letter, rest
    name, till, letter, rest = match(request, '^(%x+) (%d+) ([tfpbu]?)%d+ %d+(.*)$')
    if not name then
      -- A cost by part.
      name, till, letter, rest = match(request, '^(%x+) (%d+) ([fp]?)%+[%d+]*%d %d+(.*)$')
      name = not find(request, '++', 1, true) and name
    end
    local left, numbers = string.gsub(rest or '', ' %d+', '')
    if not is_id(name) or left ~= '' or numbers ~= (letter == '' and most or adjusted) or tonumber(till) > EXACT then
      return {DAMAGED}
    end
    requests[#requests + 1] = request
    -- Of two of one id, which are known where the clock was set back, the later one counts.
    if name == id and now < tonumber(till) and not (is_newer and #requests > next_one) then
      known, is_newer = request, #requests <= next_one
    end
  end
  local count = #requests
  if kept > EXACT or next_one >= REMEMBERED or next_one ~= count and count ~= REMEMBERED then return {DAMAGED} end
  if now >= kept then requests, kept, next_one, known = {}, 0, 0, nil end
end

-- The state of a counter's record, which begins at `from`, without what stands behind it, which is read; or nothing
-- and why it cannot be. There are no reservations behind it.
local function read_state(record, from)
  local bar = find(record, '|', from, true)
  if not bar then return sub(record, from) end
  local state = sub(record, from, bar - 1)
  local _, most = string.gsub(state, '%d+', '')
  local refused = read_behind(sub(record, bar), most, 2 + most)
  if refused then return nil, refused end
  return state
end

-- Where this request did something before: why its id is refused, or 0, the time that was replied,
-- and the numbers that the reply was made from. An adjustment has a letter.
local function repeated(cost, letter)
  if not known then return end
  local what, charged, rest = match(known, '^%x+ %d+ (%a?)([%d+]+)(.*)$')
  if what ~= (letter or '') or charged ~= cost_text(cost) then return {OPERATION_REUSED} end
  local reply = {0}
  for number in string.gmatch(rest, '%d+') do reply[#reply + 1] = tonumber(number) end
  return reply
end

-- What stands behind the state of a record that is written now, this request among it if it has an
-- id, and until when any of it matters. `told`: the numbers that the reply is made from.
local function remembered(cost, told, letter)
  if id then
    local till = now + remember
    -- For longer than it has to be, so that the fast path need not set the expiry anew for each.
    if till > kept then kept = till + floor(remember / 2) end
    requests[next_one + 1] = format('%s %.0f %s%s %.0f %s', id, till, letter or '', cost_text(cost), now, told)
    next_one = (next_one + 1) % REMEMBERED
  end
  local behind = blocked and format('|blocked %.0f', blocked) or ''
  if requests[1] then
    behind = behind .. format('|q %.0f %d|', kept, next_one) .. table.concat(requests, '|')
  end
  return behind, max(kept, blocked or 0)
end

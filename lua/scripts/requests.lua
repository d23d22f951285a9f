-- Requests with an id, which can be sent again when a reply was lost (D11). The record of a limiter
-- remembers those that it admitted, the last eight of them, so that the next time the same reply is
-- given and nothing is charged. They stand behind the state, the oldest first, each as
--   |0000000000000000000000000000c0de 1763700060123456 3 1763700000123456 ...
-- that is its id (32 hex digits), until when it is remembered (us), its cost, the time that was
-- replied (us), and the numbers that the reply was made from: see the acquire scripts.
local REMEMBERED, LONGEST = 8, 1125899906842624
local id, remember    -- of this request, if it has an id; remember in us
local requests = {}   -- those that are remembered now, as text
local known           -- this one, if it is among them

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

-- The state of a record, which begins at `from`, without the requests behind it, which are read; or
-- nothing and why they cannot be. Each was replied from as many numbers as the state has, or from
-- `fewest`.
local function read_state(record, from, fewest)
  local bar = find(record, '|', from, true)
  if not bar then return sub(record, from) end
  local state, count = sub(record, from, bar - 1), 0
  local _, most = string.gsub(state, '%d+', '')
  for request in string.gmatch(sub(record, bar), '|([^|]*)') do
    local name, till, cost, rest = match(request, '^(%x+) (%d+) (%d+) %d+(.*)$')
    local left, numbers = string.gsub(rest or '', ' %d+', '')
    count = count + 1
    if not is_id(name) or left ~= '' or numbers ~= most and numbers ~= fewest or count > REMEMBERED then
      return nil, {DAMAGED}
    end
    if now < tonumber(till) then
      requests[#requests + 1] = request
      if name == id then known = request end
    end
  end
  return state
end

-- Where this request was admitted before: why its id is refused, or 0, the time that was replied, and
-- the numbers that the reply was made from.
local function repeated(cost)
  if not known then return end
  local charged, rest = match(known, '^%x+ %d+ (%d+)(.*)$')
  if tonumber(charged) ~= tonumber(cost) then return {OPERATION_REUSED} end
  local reply = {0}
  for number in string.gmatch(rest, '%d+') do reply[#reply + 1] = tonumber(number) end
  return reply
end

-- What stands behind the state of a record that is written now, this request among it if it has an
-- id, and until when any of it is remembered. `told`: the numbers that the reply is made from.
local function remembered(cost, told)
  if id then
    if #requests == REMEMBERED then table.remove(requests, 1) end
    requests[#requests + 1] =
      format('%s %.0f %.0f %.0f', id, now + remember, cost, now) .. (told and ' ' .. told or '')
  end
  if #requests == 0 then return '', 0 end
  local till = 0
  for i = 1, #requests do till = max(till, tonumber(match(requests[i], ' (%d+)'))) end
  return '|' .. table.concat(requests, '|'), till
end

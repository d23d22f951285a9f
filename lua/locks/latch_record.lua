$prelude
$spans
$pieces
$publish
$bounds
-- The record of a countdown latch: a string, which `GET key` shows, such as
--   D2 3 3600000000 1763703600000000 0|s00..a11c 4 4 1763700001000000|c00..0b0b 1 3 1763700002000000
-- that is its tag, what is left, for how long it is kept after each change (us), from when on the latch is as if it had
-- never been set (us; 0: it was not), and `forgotten` (us; see bounds.lua). Behind each | stands one of the last eight
-- operations that changed it, the oldest first: s (set) or c (count down) and its id (32 hex digits), by how much, what
-- was left then, and its bound (us).
local REMEMBERED = 8
local CLOSED, DONE, OPEN, TOO_LATE = 0, 1, 2, 3
local left, keep, till = 0, 0, 0
local done = {}    -- the remembered operations, as text

-- Reads the record, if there is one that counts now; why where it cannot be read.
local function read_latch()
  local pieces, refused = read_pieces('$LATCH')
  if not pieces then return refused end
  local l, k, t, before = numbers(pieces[1], FOUR)
  if not l or k > LONGEST or before >= $LATEST_TIME or #pieces > 1 + REMEMBERED then return {DAMAGED} end
  know(before)
  forget(before)
  for i = 2, #pieces do
    local id, counts = match(pieces[i], '^[sc](%x+) (.*)$')
    local _, _, bound = numbers(counts or '', THREE)
    if not is_id(id) or not bound or bound >= $LATEST_TIME then return {DAMAGED} end
    know(bound)
    if now >= t then forget(bound) end
  end
  if now >= t then return end
  left, keep, till = l, k, t
  for i = 2, #pieces do done[i - 1] = pieces[i] end
end

-- An operation as it is remembered.
local function operation(letter, id, count, left, bound)
  return format('%s%s %.0f %.0f %.0f', letter, id, count, left, bound)
end

-- Writes the record; it is kept until neither the latch matters, nor a copy of an operation can arrive in time.
local function store()
  local record = format('$LATCH %.0f %.0f %.0f %.0f', left, keep, till, forgotten)
  if done[1] then record = record .. '|' .. table.concat(done, '|') end
  redis.call('SET', key, record, 'PX', ttl_ms(max(till, latest + 1)))
end

-- The reply to an operation that was done before, if this one was.
local function answered(letter, id, count)
  for i = 1, #done do
    if sub(done[i], 2, 33) == id then
      local by, was, known = numbers(sub(done[i], 35), THREE)
      if sub(done[i], 1, 1) ~= letter or by ~= count then return {OPERATION_REUSED} end
      local bound = bound_of(tonumber(ARGV[5]))
      if known < bound then
        done[i] = operation(letter, id, count, was, bound)
        know(bound)
        store()
      end
      return {0, now, DONE, was, 0}
    end
  end
end

-- The reply to an operation that comes too late, or may be a copy of one that is forgotten.
local function too_late()
  local not_after = tonumber(ARGV[5])
  if now > not_after or not_after <= forgotten then return {0, now, TOO_LATE, forgotten} end
end

-- Writes the record with this operation remembered, tells the waiters where the latch is open now, and
-- replies.
local function commit(letter, id, count)
  if #done == REMEMBERED then forget(tonumber(match(table.remove(done, 1), '%d+$'))) end
  local bound = bound_of(tonumber(ARGV[5]))
  done[#done + 1] = operation(letter, id, count, left, bound)
  know(bound)
  till = now + keep
  store()
  if left > 0 then return {0, now, DONE, left, 0} end
  publish('')
  return {0, now, DONE, left, 1}
end

-- Checks the arguments that operations begin with: ARGV[3], the id, ARGV[4], the count, and ARGV[5], after which time it
-- is refused (us).
local function wrong_operation()
  if not is_id(ARGV[3]) then return wrong_argument(3, 'an id of 32 hex digits') end
  local count = not not_whole(4, 4) and tonumber(ARGV[4])
  if not count or count < 1 or count > EXACT then return wrong_argument(4, 'from 1 to 2^53 - 1') end
  if not_whole(5, 5) then return wrong_argument(5, 'whole microseconds') end
end

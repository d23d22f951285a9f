$prelude
$spans
$pieces
$publish
-- The record of a countdown latch: a string, which `GET key` shows, such as
--   D1 3 3600000000 1763703600000000|s0000000000000000000000000000a11c 4 4|c0000000000000000000000000000b0b 1 3
-- that is its tag, what is left, for how long it is kept after each change (us), and from when on it is as
-- if it were not there (us). Behind each | stands one of the last eight operations that changed it, the
-- oldest first: s (set) or c (count down) and its id (32 hex digits), by how much, and what was left then.
local REMEMBERED = 8
local CLOSED, DONE, OPEN = 0, 1, 2
local left, keep, till = 0, 0, 0
local done = {}    -- the remembered operations, as text
local is_there = false

-- Reads the record, if there is one that counts now; why where it cannot be read.
local function read_latch()
  local pieces, refused = read_pieces('$LATCH')
  if not pieces then return refused end
  local l, k, t = numbers(pieces[1], THREE)
  if not l or k > LONGEST or #pieces > 1 + REMEMBERED then return {DAMAGED} end
  for i = 2, #pieces do
    local id, counts = match(pieces[i], '^[sc](%x+) (.*)$')
    if not is_id(id) or not numbers(counts, TWO) then return {DAMAGED} end
  end
  if now >= t then return end
  is_there, left, keep, till = true, l, k, t
  for i = 2, #pieces do done[i - 1] = pieces[i] end
end

-- The reply to an operation that was done before, if this one was.
local function answered(letter, id, count)
  for i = 1, #done do
    if sub(done[i], 2, 33) == id then
      local by, was = numbers(sub(done[i], 35), TWO)
      if sub(done[i], 1, 1) ~= letter or by ~= count then return {OPERATION_REUSED} end
      return {0, now, DONE, was, 0}
    end
  end
end

-- Writes the record with this operation remembered, tells the waiters where the latch is open now, and
-- replies.
local function commit(letter, id, count)
  if #done == REMEMBERED then table.remove(done, 1) end
  done[#done + 1] = format('%s%s %.0f %.0f', letter, id, count, left)
  till = now + keep
  local head = format('$LATCH %.0f %.0f %.0f|', left, keep, till)
  redis.call('SET', key, head .. table.concat(done, '|'), 'PX', ttl_ms(till))
  if left > 0 then return {0, now, DONE, left, 0} end
  publish('')
  return {0, now, DONE, left, 1}
end

-- Checks the arguments that operations begin with: ARGV[3], the id, and ARGV[4], the count.
local function wrong_operation()
  if not is_id(ARGV[3]) then return wrong_argument(3, 'an id of 32 hex digits') end
  local count = not not_whole(4, 4) and tonumber(ARGV[4])
  if not count or count < 1 or count > EXACT then return wrong_argument(4, 'from 1 to 2^53 - 1') end
end

$prelude
-- The record of a fenced value: a string, such as
--   V1 1763700000000000 1763703600000000 =the value
-- that is its tag; the newest fencing token that was seen; when all of it is over (us), if nothing newer is
-- seen before; and = with the value, whose bytes stand there as they are, or - where it was only read, or removed.
local STALE, ACCEPTED = 0, 1
local token, till = 0, 0
local value_at   -- where the value begins in the record, if there is one; Lua goes through each byte that it is given

-- Reads the record but for its value, if there is one that counts now; why where it cannot be read.
local function read_fenced()
  local head, refused = read('GETRANGE', key, 0, 63)
  if refused then return refused end
  if head == '' and redis.call('EXISTS', key) == 0 then return end
  refused = unlike(head, '$FENCED')
  if refused then return refused end
  local newest, over, sign, from = match(head, '^$FENCED (%d+) (%d+) ([-=])()')
  if not newest or #newest > 16 or #over > 16 or tonumber(newest) > EXACT or tonumber(over) > EXACT then return {DAMAGED} end
  if sign == '-' and from <= #head then return {DAMAGED} end
  if now >= tonumber(over) then return end
  token, till = tonumber(newest), tonumber(over)
  if sign == '=' then value_at = from - 1 end
end

-- The value of the record that was read, if it has one.
local function read_value()
  return value_at and redis.call('GETRANGE', key, value_at, -1)
end

-- Writes it for the holder of this token.
local function store_fenced(newest, keep, value)
  till = max(till, now + keep)
  local record = format('$FENCED %.0f %.0f ', newest, till) .. (value and '=' or '-') .. (value or '')
  redis.call('SET', key, record, 'PX', ttl_ms(till))
end

local function wrong_fence(first)
  local wrong = not_whole(first, first + 1)
  if wrong then return wrong_argument(wrong, 'a whole number') end
  if tonumber(ARGV[first]) > EXACT then return wrong_argument(first, 'at most 2^53 - 1') end
  local keep = tonumber(ARGV[first + 1])
  if keep < 1 or keep > LONGEST then return wrong_argument(first + 1, '1 to 2^50 us') end
end

$prelude
$spans
$leases
$publish
$wake
-- The record of a semaphore: `M2:`, the latest fencing token, until when somebody waits, who is to be told of what is
-- given back (us), and `forgotten` (us; see bounds.lua), each a double; how many grants follow, in 2 bytes; the grants,
-- the first to end first, then the older one, each the permit's id (16 bytes), how many permits (2), and its token, the
-- end of its lease (us) and its bound (us) as doubles; and of the last 16 that were given back, the oldest first, each
-- its id, its token, until when it is remembered (us) and its bound. What has expired is forgotten by the next write.
local HEAD, GRANT, RELEASE = '<dddI2', '<c16I2ddd', '<c16ddd'
local MOST, REMEMBERED = $MAX_PERMITS, $REMEMBERED_RELEASES
local FULL, HELD, RELEASED, NEVER, TOO_LATE, NOT_HELD = 0, 1, 2, 3, 4, 5
local token, used = 0, 0
-- What is stored; where the grants that count now begin in it, and what is behind them; and how many they are.
local record, first, behind, live = '', 1, 1, 0
local released = {}   -- those that were given back and count now, as they are stored
-- What there is of the id that is asked for: its grant, or the token of one that was given back.
local own, given_back
local fits_at   -- from when on there is room again, where there is none now (us)

-- Reads the record, if there is one, and finds what it has of the permit of this id, if it is also that of the token
-- (nil: of any), and from when on no more than so many permits are in use; why where it cannot be read.
local function read_semaphore(id, of, room)
  local stored, refused = read_binary('$SEMAPHORE')
  if not stored then return refused end
  record = stored
  if #record < 29 then return {DAMAGED} end
  local count, before
  token, wake, before, count = unpack(HEAD, record, 4)
  behind = 30 + 42 * count
  local remembered = (#record + 1 - behind) / 40
  if not are_sound(token, wake, before) or token > LATEST_END
    or remembered < 0 or remembered > REMEMBERED or remembered % 1 > 0 then
    return {DAMAGED}
  end
  -- The last to end first: then a grant is in the way of a caller that wants room where those behind it leave enough.
  local total, next_end, next_token = 0, EXACT + 1, -1
  first = behind
  forget(before)
  know(before)
  for at = behind - 42, 30, -42 do
    local its_id, permits, its_token, deadline, bound = unpack(GRANT, record, at)
    if not (permits > 0 and its_token >= 0 and its_token <= token and its_token % 1 == 0
      and deadline >= 0 and deadline % 1 == 0 and bound >= 0 and bound < $LATEST_TIME and bound % 1 == 0
      and (deadline < next_end or deadline == next_end and its_token <= next_token)) then
      return {DAMAGED}
    end
    total, next_end, next_token = total + permits, deadline, its_token
    if bound > latest then latest = bound end
    if now < deadline then
      first, live, used = at, live + 1, used + permits
      if room and not fits_at and used > room then fits_at = deadline end
      if its_id == id and (not of or its_token == of) then
        own = {at = at, count = permits, token = its_token, deadline = deadline, bound = bound}
      end
    else
      forget(bound)
    end
  end
  if total > MOST then return {DAMAGED} end
  for at = behind, #record, 40 do
    local its_id, its_token, till, bound = unpack(RELEASE, record, at)
    if not are_sound(its_token, till, bound) or its_token > token then return {DAMAGED} end
    know(bound)
    if now < till then
      released[#released + 1] = sub(record, at, at + 39)
      if its_id == id and not given_back and (not of or its_token == of) then given_back = its_token end
    else
      forget(bound)
    end
  end
end

-- Where the grants begin that end after this one.
local function place_of(grant)
  local low, high = 0, live   -- so many are before it, at least and at most
  while low < high do
    local middle = floor((low + high) / 2)
    local its_token, deadline = unpack('<dd', record, first + 42 * middle + 18)
    if deadline > grant.deadline or deadline == grant.deadline and its_token > grant.token then
      high = middle
    else
      low = middle + 1
    end
  end
  return first + 42 * low
end

local function held(grant)
  return {0, now, HELD, grant.count, grant.token, grant.deadline}
end

-- Writes the record without the grant that begins at `gone`, and with this one, which ends later, where they are given;
-- it is kept until no lease, release, wait or token in it matters, and no copy of an acquire can arrive in time.
local function commit(gone, id, grant)
  local at = grant and place_of(grant) or behind
  local from, to = gone or at, gone and gone + 42 or at   -- what is left out
  local last = to == behind and from - 42 or behind - 42
  local keep = max(token + 1, wake, latest + 1, grant and grant.deadline or 0)
  if last >= first then keep = max(keep, unpack('<d', record, last + 26)) end
  for _, one in ipairs(released) do keep = max(keep, unpack('<d', one, 25)) end
  local count = live + (grant and 1 or 0) - (gone and 1 or 0)
  redis.call('SET', key, table.concat({
    '$SEMAPHORE:', pack(HEAD, token, wake, forgotten, count), sub(record, first, from - 1), sub(record, to, at - 1),
    grant and pack(GRANT, id, grant.count, grant.token, grant.deadline, grant.bound) or '',
    sub(record, at, behind - 1), table.concat(released),
  }), 'PX', ttl_ms(keep))
end

$prelude
$pieces
$publish
$wake
-- The record of a semaphore: a string, which `GET key` shows, such as
--   M1 1763700000000000 0|g0000000000000000000000000000a11c 2 1763700000000000 1763700030000000|r00...
-- that is its tag, the latest fencing token, and until when somebody waits, who is to be told of what is
-- given back (us). Behind each | stands a grant, the oldest first: g, the permit's id (32 hex digits), how
-- many permits, its token and the end of its lease (us); then one of the last 16 that were given back, the
-- oldest first: r, its id, its token and until when it is remembered (us). What has expired is dropped by the
-- next write.
local MOST, REMEMBERED = $MAX_PERMITS, $REMEMBERED_RELEASES
local FULL, HELD, RELEASED, NEVER, TOO_LATE, NOT_HELD = 0, 1, 2, 3, 4, 5
local token, used = 0, 0
local grants, released = {}, {}   -- those that count now

-- Reads the record, if there is one; why where it cannot be read.
local function read_semaphore()
  local pieces, refused = read_pieces('$SEMAPHORE')
  if not pieces then return refused end
  token, wake = numbers(pieces[1], 2)
  if not token or token > LATEST_END then return {DAMAGED} end
  local total, remembered = 0, 0
  for i = 2, #pieces do
    local letter, id, rest = match(pieces[i], '^([gr])(%x+) (.*)$')
    if not is_id(id) then return {DAMAGED} end
    if letter == 'g' then
      local count, of, deadline = numbers(rest, 3)
      if not count or count < 1 then return {DAMAGED} end
      total = total + count
      if now < deadline then
        grants[#grants + 1] = {id = id, count = count, token = of, deadline = deadline}
        used = used + count
      end
    else
      local of, till = numbers(rest, 2)
      if not of then return {DAMAGED} end
      remembered = remembered + 1
      if now < till then released[#released + 1] = {id = id, token = of, till = till} end
    end
  end
  if total > MOST or remembered > REMEMBERED then return {DAMAGED} end
end

-- Where in a list that of this id is, if it is also that of the token (nil: of any).
local function position(list, id, of)
  for i = 1, #list do
    if list[i].id == id and (not of or list[i].token == of) then return i end
  end
end

local function held(grant)
  return {0, now, HELD, grant.count, grant.token, grant.deadline}
end

-- Writes the record; it is kept until no lease, release, wait or token in it matters.
local function commit()
  local text, keep = {format('$SEMAPHORE %.0f %.0f', token, wake)}, max(token + 1, wake)
  for _, grant in ipairs(grants) do
    text[#text + 1] = format('g%s %.0f %.0f %.0f', grant.id, grant.count, grant.token, grant.deadline)
    keep = max(keep, grant.deadline)
  end
  for _, one in ipairs(released) do
    text[#text + 1] = format('r%s %.0f %.0f', one.id, one.token, one.till)
    keep = max(keep, one.till)
  end
  redis.call('SET', key, table.concat(text, '|'), 'PX', ttl_ms(keep))
end

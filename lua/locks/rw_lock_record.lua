$prelude
$pieces
$publish
$wake
-- The record of a read-write lock: a string, which `GET key` shows, such as
--   W1 1763700000000000 0 0|r0000000000000000000000000000a11c 1763700000000000 1763700030000000 000...1|R00...
-- that is its tag, the latest fencing token, until when (us) a writer that waits keeps new readers out (0: none
-- does), and until when somebody waits, who is to be told when a grant ends (us). Behind each | stands what one
-- owner holds, the oldest grant first: r (reads) or w (writes), the owner (32 hex digits), the token, the end of
-- the lease (us), and the ids of its holds; then one of the last 16 holds that were given back, the oldest
-- first: R or W, its id, its owner, the token, how often the owner held the lock then, and until when it is
-- remembered (us). What has expired is dropped by the next write.
local READERS, HOLDS, REMEMBERED = $MAX_READERS, $MAX_SIDE_HOLDS, $REMEMBERED_SIDES
local REFUSED, HELD, RELEASED, UPGRADE, TOO_MANY, TOO_LATE, NOT_HELD = 0, 1, 2, 3, 4, 5, 6
local token, kept_till = 0, 0
local grants, released = {}, {}   -- those that count now

-- What stands behind the owner of a grant.
local function read_grant(mode, owner, rest)
  local head, ids = match(rest, '^(%d+ %d+) (.+)$')
  local grant = {mode = mode, owner = owner, holds = {}}
  grant.token, grant.deadline = numbers(head or '', 2)
  if not grant.token then return end
  for id in string.gmatch(ids .. ' ', '([^ ]*) ') do
    if not is_id(id) then return end
    grant.holds[#grant.holds + 1] = id
  end
  if #grant.holds <= HOLDS then return grant end
end

-- What stands behind the id of a hold that was given back.
local function read_released(mode, id, rest)
  local owner, counts = match(rest, '^(%x+) (.*)$')
  local one = {mode = mode, id = id, owner = owner}
  one.token, one.holds, one.till = numbers(counts or '', 3)
  if is_id(owner) and one.token then return one end
end

-- Reads the record, if there is one; why where it cannot be read.
local function read_rw_lock()
  local pieces, refused = read_pieces('$RW_LOCK')
  if not pieces then return refused end
  token, kept_till, wake = numbers(pieces[1], 3)
  if not token or token > LATEST_END then return {DAMAGED} end
  if kept_till <= now then kept_till = 0 end
  local counts = {r = 0, w = 0, released = 0}
  for i = 2, #pieces do
    local letter, id, rest = match(pieces[i], '^([rwRW])(%x+) (.*)$')
    if not is_id(id) then return {DAMAGED} end
    local mode = string.lower(letter)
    if mode == letter then
      local grant = read_grant(mode, id, rest)
      if not grant then return {DAMAGED} end
      counts[mode] = counts[mode] + 1
      if now < grant.deadline then grants[#grants + 1] = grant end
    else
      local one = read_released(mode, id, rest)
      if not one then return {DAMAGED} end
      counts.released = counts.released + 1
      if now < one.till then released[#released + 1] = one end
    end
  end
  if counts.r > READERS or counts.w > 1 or counts.released > REMEMBERED then return {DAMAGED} end
end

-- Where among the holds of a grant that of this id is.
local function hold_at(grant, id)
  for i = 1, #grant.holds do
    if grant.holds[i] == id then return i end
  end
end

-- What this owner holds in this mode, and where that is.
local function grant_of(mode, owner)
  for i = 1, #grants do
    if grants[i].mode == mode and grants[i].owner == owner then return grants[i], i end
  end
end

local function held(grant)
  return {0, now, HELD, grant.token, #grant.holds, grant.deadline}
end

-- Writes the record; it is kept until no lease, wait, release or token in it matters.
local function commit()
  local text = {format('$RW_LOCK %.0f %.0f %.0f', token, kept_till, wake)}
  local keep = max(token + 1, kept_till, wake)
  for _, grant in ipairs(grants) do
    local head = format('%s%s %.0f %.0f ', grant.mode, grant.owner, grant.token, grant.deadline)
    text[#text + 1] = head .. table.concat(grant.holds, ' ')
    keep = max(keep, grant.deadline)
  end
  for _, one in ipairs(released) do
    local name = string.upper(one.mode) .. one.id
    text[#text + 1] = format('%s %s %.0f %.0f %.0f', name, one.owner, one.token, one.holds, one.till)
    keep = max(keep, one.till)
  end
  redis.call('SET', key, table.concat(text, '|'), 'PX', ttl_ms(keep))
end

-- Checks the arguments that all operations begin with: ARGV[3], r or w, and ARGV[4], the owner.
local function wrong_owner()
  if ARGV[3] ~= 'r' and ARGV[3] ~= 'w' then return wrong_argument(3, 'r or w') end
  if not is_id(ARGV[4]) then return wrong_argument(4, 'an id of 32 hex digits') end
end

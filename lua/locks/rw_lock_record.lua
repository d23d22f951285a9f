$prelude
$spans
$leases
$publish
$wake
-- The record of a read-write lock: `W1:`, the latest fencing token, until when (us) a writer that waits keeps new
-- readers out (0: none does), and until when somebody waits, who is to be told when a grant ends (us), each a double;
-- how many grants follow, in 2 bytes; what each owner holds, the oldest grant first: r (reads) or w (writes), the owner
-- (16 bytes), the token and the end of the lease (us) as doubles, how many holds there are, in one byte, and their ids
-- (16 each); and the last 16 holds that were given back, the oldest first, each r or w, its id, its owner, the token, how
-- often the owner held the lock then, in one byte, and until when it is remembered (us). What has expired is dropped by
-- the next write.
local HEAD, GRANT, RELEASE = '<dddI2', '<c1c16ddI1', '<c1c16c16dI1d'
local READERS, HOLDS, REMEMBERED = $MAX_READERS, $MAX_SIDE_HOLDS, $REMEMBERED_SIDES
local REFUSED, HELD, RELEASED, UPGRADE, TOO_MANY, TOO_LATE, NOT_HELD = 0, 1, 2, 3, 4, 5, 6
local token, kept_till = 0, 0
local grants, released = {}, {}   -- those that count now

-- Reads the record, if there is one; why where it cannot be read.
local function read_rw_lock()
  local record, refused = read_binary('$RW_LOCK')
  if not record then return refused end
  if #record < 29 then return {DAMAGED} end
  local count
  token, kept_till, wake, count = unpack(HEAD, record, 4)
  if not are_sound(token, wake) or not are_sound(kept_till, 0) or token > LATEST_END then return {DAMAGED} end
  if kept_till <= now then kept_till = 0 end
  local counts, at = {r = 0, w = 0}, 30
  for _ = 1, count do
    if #record < at + 33 then return {DAMAGED} end
    local mode, owner, of, deadline, holds = unpack(GRANT, record, at)
    local ids = sub(record, at + 34, at + 33 + 16 * holds)
    if not counts[mode] or not are_sound(of, deadline) or holds < 1 or holds > HOLDS then return {DAMAGED} end
    counts[mode] = counts[mode] + 1
    if now < deadline then
      grants[#grants + 1] = {mode = mode, owner = owner, token = of, deadline = deadline, holds = holds, ids = ids}
    end
    at = at + 34 + 16 * holds
  end
  local remembered = (#record + 1 - at) / 50
  if counts.r > READERS or counts.w > 1 or remembered < 0 or remembered > REMEMBERED or remembered % 1 > 0 then
    return {DAMAGED}
  end
  for from = at, #record, 50 do
    local one = {}
    one.mode, one.id, one.owner, one.token, one.holds, one.till = unpack(RELEASE, record, from)
    if not counts[one.mode] or not are_sound(one.token, one.till) or one.holds > HOLDS then return {DAMAGED} end
    if now < one.till then released[#released + 1] = one end
  end
end

-- Where among the ids of a grant's holds this one begins.
local function hold_at(grant, id)
  for at = 1, #grant.ids, 16 do
    if sub(grant.ids, at, at + 15) == id then return at end
  end
end

-- What this owner holds in this mode, and where that is.
local function grant_of(mode, owner)
  for i = 1, #grants do
    if grants[i].mode == mode and grants[i].owner == owner then return grants[i], i end
  end
end

local function held(grant)
  return {0, now, HELD, grant.token, grant.holds, grant.deadline}
end

-- Writes the record; it is kept until no lease, wait, release or token in it matters.
local function commit()
  local text = {'$RW_LOCK:' .. pack(HEAD, token, kept_till, wake, #grants)}
  local keep = max(token + 1, kept_till, wake)
  for _, grant in ipairs(grants) do
    text[#text + 1] = pack(GRANT, grant.mode, grant.owner, grant.token, grant.deadline, grant.holds)
    text[#text + 1] = grant.ids
    keep = max(keep, grant.deadline)
  end
  for _, one in ipairs(released) do
    text[#text + 1] = pack(RELEASE, one.mode, one.id, one.owner, one.token, one.holds, one.till)
    keep = max(keep, one.till)
  end
  redis.call('SET', key, table.concat(text), 'PX', ttl_ms(keep))
end

-- Checks the arguments that all operations begin with: ARGV[3], r or w, and ARGV[4], the owner.
local function wrong_owner()
  if ARGV[3] ~= 'r' and ARGV[3] ~= 'w' then return wrong_argument(3, 'r or w') end
  if not is_id(ARGV[4]) then return wrong_argument(4, 'an id of 32 hex digits') end
end

$prelude
$spans
$leases
$publish
$wake
-- The record of a read-write lock: `W2:`, the latest fencing token, until when (us) a writer that waits keeps new
-- readers out (0: none does), until when somebody waits, who is to be told when a grant ends (us), and `forgotten` (us;
-- see bounds.lua), each a double; how many grants follow, in 2 bytes; what each owner holds, the oldest grant first: r
-- (reads) or w (writes), the owner (16 bytes), the token, the end of the lease (us) and the latest bound of its holds (us)
-- as doubles, how many holds there are, in one byte, and their ids (16 each); and the last 16 holds that were given back,
-- the oldest first, each r or w, its id, its owner, the token, how often the owner held the lock then, in one byte, until
-- when it is remembered (us), and the bound of its grant. What has expired is forgotten by the next write.
local HEAD, GRANT, RELEASE = '<ddddI2', '<c1c16dddI1', '<c1c16c16dI1dd'
local READERS, HOLDS, REMEMBERED = $MAX_READERS, $MAX_SIDE_HOLDS, $REMEMBERED_SIDES
local REFUSED, HELD, RELEASED, UPGRADE, TOO_MANY, TOO_LATE, NOT_HELD = 0, 1, 2, 3, 4, 5, 6
local token, kept_till = 0, 0
local grants, released = {}, {}   -- those that count now

-- Reads the record, if there is one; why where it cannot be read.
local function read_rw_lock()
  local record, refused = read_binary('$RW_LOCK')
  if not record then return refused end
  if #record < 37 then return {DAMAGED} end
  local count, before
  token, kept_till, wake, before, count = unpack(HEAD, record, 4)
  if not are_sound(token, wake, before) or not are_sound(kept_till, 0, 0) or token > LATEST_END then return {DAMAGED} end
  if kept_till <= now then kept_till = 0 end
  forget(before)
  know(before)
  local counts, at = {r = 0, w = 0}, 38
  for _ = 1, count do
    if #record < at + 41 then return {DAMAGED} end
    local mode, owner, of, deadline, bound, holds = unpack(GRANT, record, at)
    local ids = sub(record, at + 42, at + 41 + 16 * holds)
    if not counts[mode] or not are_sound(of, deadline, bound) or of > token or holds < 1 or holds > HOLDS then
      return {DAMAGED}
    end
    counts[mode] = counts[mode] + 1
    know(bound)
    if now < deadline then
      grants[#grants + 1] =
        {mode = mode, owner = owner, token = of, deadline = deadline, bound = bound, holds = holds, ids = ids}
    else
      forget(bound)
    end
    at = at + 42 + 16 * holds
  end
  local remembered = (#record + 1 - at) / 58
  if counts.r > READERS or counts.w > 1 or remembered < 0 or remembered > REMEMBERED or remembered % 1 > 0 then
    return {DAMAGED}
  end
  for from = at, #record, 58 do
    local one = {}
    one.mode, one.id, one.owner, one.token, one.holds, one.till, one.bound = unpack(RELEASE, record, from)
    if not counts[one.mode] or not are_sound(one.token, one.till, one.bound) or one.token > token or one.holds > HOLDS then
      return {DAMAGED}
    end
    know(one.bound)
    if now < one.till then released[#released + 1] = one else forget(one.bound) end
  end
end

-- Where among the ids of a grant's holds this one begins. The first place where its bytes stand may be none.
local function hold_at(grant, id)
  local at = 0
  repeat at = find(grant.ids, id, at + 1, true) until not at or at % 16 == 1
  return at
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

-- Writes the record; it is kept until no lease, wait, release or token in it matters, and no copy of an acquire can
-- arrive in time.
local function commit()
  local text = {'$RW_LOCK:' .. pack(HEAD, token, kept_till, wake, forgotten, #grants)}
  local keep = max(token + 1, kept_till, wake, latest + 1)
  for _, grant in ipairs(grants) do
    text[#text + 1] = pack(GRANT, grant.mode, grant.owner, grant.token, grant.deadline, grant.bound, grant.holds)
    text[#text + 1] = grant.ids
    keep = max(keep, grant.deadline)
  end
  for _, one in ipairs(released) do
    text[#text + 1] = pack(RELEASE, one.mode, one.id, one.owner, one.token, one.holds, one.till, one.bound)
    keep = max(keep, one.till)
  end
  redis.call('SET', key, table.concat(text), 'PX', ttl_ms(keep))
end

-- Checks the arguments that all operations begin with: ARGV[3], r or w, and ARGV[4], the owner.
local function wrong_owner()
  if ARGV[3] ~= 'r' and ARGV[3] ~= 'w' then return wrong_argument(3, 'r or w') end
  if not is_id(ARGV[4]) then return wrong_argument(4, 'an id of 32 hex digits') end
end

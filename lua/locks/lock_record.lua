$prelude
$ids
$publish
-- The record of the reentrant lock: a string, which `GET key` shows, such as
--   K2 0000000000000000000000000000a11c 1763700030000000 1763700000000000 1763700090000000 0 0 0 web-1/77|00..01 1763700001000000|r00..0f 0 1763700000000000 1>00...
-- that is its tag; of the latest grant, the owner (32 hex digits), the end of the lease (us) and the fencing token;
-- from when on the record is as if it were not there (us); until when a waiter is to be woken (us); by how much the
-- token is ahead of the time of its grant (us); the latest `not_after` of the holds that were forgotten (us); and the
-- label of that grant, if it gave one. Behind the first | stand the holds, the oldest first, each its id (32 hex digits)
-- and its `not_after`, until when its acquire may arrive (us; 0 without a bound), or nothing where it is free; behind each
-- other | one of the last four holds that ended, the oldest first: r and such a hold, the token of its grant and how many
-- holds were left, where it was given back; f, a hold and that token, where it was freed by force; x and a hold whose lease
-- was over when the lock was granted again. Behind each > stands a place in the queue, the first one first: its owner (32
-- hex digits) and until when it lasts (us). Places that have ended are dropped by the next write.
-- Where the queue is empty it is stored packed, as fast_lock.lua says.
local MAX_HOLDS, MAX_QUEUED = $MAX_HOLDS, $MAX_QUEUED
local ENTRY = '<$LOCK_ENTRY'   -- a hold, or one that ended, in a packed record
local owner, deadline, token, keep, wake, ahead, forgotten, label = '', 0, 0, 0, 0, 0, 0, ''
local held = ''    -- the holds, with a space between each two
local ended = ''   -- what stands behind them
local queue = {}   -- the places that have not ended
local kept = -1    -- until when the record was kept that was read

local REFUSED, HELD, TOO_LATE, QUEUED, RELEASED = 0, 1, 2, 3, 4

-- Whether so many digits are until when an acquire may arrive.
local function is_bound(digits)
  return tonumber(digits) < $LATEST_TIME
end

-- How many holds there are.
local function holds()
  return (select(2, string.gsub(held, '%x+ %d+', '')))
end

-- Whether these are holds, an id and until when its acquire may arrive, with a space between each two, or nothing.
local function are_holds(text)
  local size, count = 0, 0
  for id, digits in string.gmatch(text .. ' ', '([%da-f]+) (%d+) ') do
    if #id ~= 32 or not is_bound(digits) then return false end
    size, count = size + 34 + #digits, count + 1
  end
  return #text == max(0, size - 1) and count <= MAX_HOLDS
end

-- Whether these are holds that ended, as they stand behind the ids.
local ENDED_AS = {r = '^ (%d+) (%d+) (%d+)$', f = '^ (%d+) (%d+)$', x = '^ (%d+)$'}
local function are_ends(text)
  local count = 0
  for piece in string.gmatch(text, '|([^|]*)') do
    local letter, id, rest = match(piece, '^([rfx])(%x+)(.*)$')
    local till, of, left = match(rest or '', ENDED_AS[letter] or '')
    if not is_id(id) or not till or not is_bound(till) or tonumber(of or 0) > EXACT or tonumber(left or 0) > EXACT then
      return false
    end
    count = count + 1
  end
  return count <= 4
end

local function id_of(bytes, at)
  return format('%08x%08x%08x%08x', struct.unpack('>I4I4I4I4', bytes, at))
end

-- The text of a packed record; nothing where it is damaged.
local function text_of(old)
  if #old < 69 then return end
  $unpack_lock
  if not is_lock then return end
  local numbers, pieces, ids, from = '', '', {}, 70
  for _, number in ipairs({deadline, token, keep, wake, ahead, forgotten}) do
    if not (number >= 0 and number <= EXACT and number % 1 == 0) then return end
    numbers = numbers .. format(' %.0f', number + 0)
  end
  for at = 1, entries do
    local letter, id, of, left, till
    letter, id, of, left, till, from = struct.unpack(ENTRY, old, from)
    if not (till >= 0 and till % 1 == 0) then return end
    if at <= holds then
      if letter ~= 'h' or of ~= token or left > 0 then return end
      ids[holds + 1 - at] = format('%s %.0f', id_of(id), till)
    else
      local piece = format('|%s%s %.0f', letter, id_of(id), till)
      if letter ~= 'x' then piece = piece .. format(' %.0f', of) end
      if letter == 'r' then piece = piece .. format(' %d', left) end
      pieces = piece .. pieces
    end
  end
  local words = label <= #old and ' ' .. sub(old, label) or ''
  return '$LOCK ' .. id_of(owner) .. numbers .. words .. '|' .. table.concat(ids, ' ') .. pieces
end

-- The record as it is stored where nobody is in the queue; nothing where the packed form cannot say it.
local function packed()
  local pieces, entries = '', 0
  for letter, id, till, rest in string.gmatch(ended, '|(%a)(%x*) (%d+)([^|]*)') do
    local of, left = match(rest, '^ ?(%d*) ?(%d*)$')
    of, left = tonumber(of) or 0, tonumber(left) or 0
    if left > 255 then return end
    pieces, entries = struct.pack(ENTRY, letter, bytes_of(id), of, left, tonumber(till)) .. pieces, entries + 1
  end
  local ended = entries
  for id, till in string.gmatch(held, '(%x+) (%d+)') do
    pieces, entries = struct.pack(ENTRY, 'h', bytes_of(id), token, 0, tonumber(till)) .. pieces, entries + 1
  end
  return struct.pack('$LOCK_HEAD', $LOCK_NUMBER, deadline, token, keep, wake, ahead, forgotten, bytes_of(owner), entries,
    entries - ended) .. pieces .. label
end

-- Reads the record, if there is one that counts now; why where it cannot be read.
local function read_lock()
  local record, refused = read(GET, key)
  if refused then return refused end
  if not record then return end
  if sub(record, 1, 3) == '$LOCK:' then
    record = text_of(record)
    if not record then return {DAMAGED} end
  end
  refused = unlike(record, '$LOCK')
  if refused then return refused end
  local o, d, t, k, w, a, f, words, ids, ends, places =
    match(record, '^$LOCK (%x+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)([^|>]*)|([^|>]*)([^>]*)(.*)$')
  if not is_id(o) or not are_holds(ids) or words ~= '' and not find(words, '^ [^ ]+$') then return {DAMAGED} end
  d, t, k, w, a = tonumber(d), tonumber(t), tonumber(k), tonumber(w), tonumber(a)
  if max(d, t) > $LATEST_END or max(k, w) > EXACT or a > t or not is_bound(f) or not are_ends(ends) then
    return {DAMAGED}
  end
  if now >= k then return end
  owner, deadline, label, held, ended = o, d, sub(words, 2), ids, ends
  token, keep, wake, ahead, forgotten, kept = t, k, w, a, tonumber(f), k
  local size = 0
  for who, digits in string.gmatch(places, '>([%da-f]+) (%d+)') do
    local till = tonumber(digits)
    if #who ~= 32 or till > EXACT then return {DAMAGED} end
    size = size + 34 + #digits
    if now < till then queue[#queue + 1] = {owner = who, till = till, digits = digits} end
  end
  if size ~= #places then return {DAMAGED} end
end

local function is_live()
  return held ~= '' and now < deadline
end

-- Whether this owner holds the lock, by the grant of this token (nil: by any).
local function is_held_by(who, grant)
  return is_live() and owner == who and (not grant or grant == token)
end

-- The reply that tells the grant as it stands.
local function grant()
  return {0, now, HELD, token, holds(), deadline}
end

-- The reply that names the holder of the lock, if there is one: token, holds, deadline, and the owner in
-- four parts of 32 bits.
local function add_holder(reply)
  if not is_live() then return reply end
  local n = #reply
  reply[n + 1], reply[n + 2], reply[n + 3] = token, holds(), deadline
  for part = 0, 3 do
    reply[n + 4 + part] = tonumber(sub(owner, part * 8 + 1, part * 8 + 8), 16)
  end
  return reply
end

local function refuse()
  return add_holder({0, now, REFUSED})
end

-- Forgets the oldest of four holds that ended.
local function make_room()
  local till, rest = match(ended, '^|%w+ (%d+)[^|]*(|[^|]*|[^|]*|[^|]*)$')
  if till then forgotten, ended = max(forgotten, tonumber(till)), rest end
end

-- Of the last four holds that ended, this one is the latest.
local function remember(hold)
  make_room()
  ended = ended .. '|' .. hold
end

-- Ends all holds that there are, live or not, each with this letter and what stands behind its id. To remember
-- each of many would forget them one by one, which takes longer.
local function end_all(letter, how)
  local all = {}
  for hold in string.gmatch(held, '%x+ %d+') do all[#all + 1] = hold end
  local forgets = #all - 4   -- all but the last four
  for at = 1, forgets do
    local till = tonumber(sub(all[at], 34))
    if till > forgotten then forgotten = till end
  end
  for at = max(1, forgets + 1), #all do remember(letter .. all[at] .. how) end
  held = ''
end

-- Where in the queue the place of this owner is, if it has one.
local function place_of(who)
  for at = 1, #queue do
    if queue[at].owner == who then return at end
  end
end

-- Gives an owner a place at the end of the queue, or keeps the one that it has, for at least `span` microseconds
-- from now on; whether that is to be written, which is no more often than once in half of them.
local function line_up(who, span)
  local at = place_of(who)
  if at and queue[at].till >= now + span or not at and #queue >= MAX_QUEUED then return false end
  local till = now + span + floor(span / 2)
  queue[at or #queue + 1] = {owner = who, till = till, digits = format('%.0f', till)}
  keep = max(keep, till)
  return true
end

-- Ends the place of this owner; whether it had one.
local function leave(who)
  local at = place_of(who)
  if at then table.remove(queue, at) end
  return at ~= nil
end

local function text()
  local head = format('$LOCK %s %.0f %.0f %.0f %.0f %.0f %.0f', owner, deadline, token, keep, wake, ahead, forgotten)
  if label ~= '' then head = head .. ' ' .. label end
  local places = {}
  for at = 1, #queue do places[at] = '>' .. queue[at].owner .. ' ' .. queue[at].digits end
  return head .. '|' .. held .. ended .. table.concat(places)
end

local function store()
  local record = not queue[1] and packed() or text()
  if keep == kept then
    redis.call('SET', key, record, 'KEEPTTL')
  else
    redis.call('SET', key, record, 'PX', ttl_ms(keep))
  end
end

-- The record is kept for at least `remember_us` more, and until no lease, hold, place or token in it matters. Where that
-- is longer than before, it is kept for half as long again, so that the expiry is seldom moved.
local function keep_for(remember_us)
  local needed = max(now, deadline) + remember_us
  if keep < needed then keep = math.min(needed + floor((needed - now) / 2), EXACT) end
  keep = max(keep, token + 1)
end

local function commit(remember_us)
  keep_for(remember_us)
  store()
end

-- Tells who is next, or the waiters, where the lock is free.
local function wake_up()
  if is_live() then return end
  if queue[1] then
    publish(queue[1].owner)
  elseif now < wake then
    publish('')
  end
end

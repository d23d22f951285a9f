-- The record of the reentrant lock: a string, which `GET key` shows, such as
--   K1 0000000000000000000000000000a11c 1 1763700030000000 1763700000000000 1763700090000000 0 0 web-1/77|a00...>00...
-- that is its tag; the owner (32 hex digits; zeros where it is free); how often it is held; the end
-- of the lease (us); the latest fencing token; from when on the record is as if it were not there (us); until
-- when somebody waits, who is to be woken (us); by how much the token is ahead of the time of its grant (us); and
-- who holds it in words, where he said so. Behind each | stands one of the last four operations that changed it, the
-- oldest first: its letter (a acquire, n renew, r release, f force-release) and id, and the answer it was given:
-- holds, deadline, token. Behind each > stands a place in the queue, the first one first: its owner (32 hex
-- digits) and until when it lasts (us). Places that have ended are dropped by the next write.
local REMEMBERED = 4
local MAX_QUEUED = 256
local NOBODY = '00000000000000000000000000000000'
local owner, holds, deadline, token, keep, wake, ahead, label = NOBODY, 0, 0, 0, 0, 0, 0, ''
local done = {}    -- the remembered operations, as text
local queue = {}   -- the places that have not ended

local REFUSED, DONE, TOO_LATE, QUEUED = 0, 1, 2, 3

-- Reads the record, if there is one that counts now; why where it cannot be read.
local function read_lock()
  local record, refused = read('GET', key)
  if refused then return refused end
  if not record then return end
  refused = unlike(record, 'K1')
  if refused then return refused end
  local o, h, d, t, k, w, a, rest = match(record, '^K1 (%x+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)(.*)$')
  if not o then return {DAMAGED} end
  local words, operations, places = match(rest, '^([^|>]*)([^>]*)(.*)$')
  if words ~= '' and not find(words, '^ [^ ]+$') then return {DAMAGED} end
  if now >= tonumber(k) then return end
  owner, holds, deadline, label = o, tonumber(h), tonumber(d), sub(words, 2)
  token, keep, wake, ahead = tonumber(t), tonumber(k), tonumber(w), tonumber(a)
  for operation in string.gmatch(operations, '|([^|]+)') do done[#done + 1] = operation end
  for place in string.gmatch(places, '>([^>]*)') do
    local who, till = match(place, '^(%x+) (%d+)$')
    if not is_id(who) then return {DAMAGED} end
    if now < tonumber(till) then queue[#queue + 1] = {owner = who, till = tonumber(till)} end
  end
end

local function is_live()
  return holds > 0 and now < deadline
end

-- Whether this owner holds the lock, by the grant of this token (nil: by any).
local function is_held_by(who, grant)
  return is_live() and owner == who and (not grant or grant == token)
end

-- The reply that names who holds the lock, if anyone: token, holds, deadline, and the owner in
-- four parts of 32 bits.
local function add_holder(reply)
  if not is_live() then return reply end
  local n = #reply
  reply[n + 1], reply[n + 2], reply[n + 3] = token, holds, deadline
  for part = 0, 3 do
    reply[n + 4 + part] = tonumber(sub(owner, part * 8 + 1, part * 8 + 8), 16)
  end
  return reply
end

local function refuse()
  return add_holder({0, now, REFUSED})
end

-- The reply to an operation that was done before, if this one was.
local function answered(letter, id)
  for i = 1, #done do
    if sub(done[i], 2, 33) == id then
      if sub(done[i], 1, 1) ~= letter then return {OPERATION_REUSED} end
      local h, d, t = match(done[i], ' (%d+) (%d+) (%d+)$', 34)
      if not h then return {DAMAGED} end
      return {0, now, DONE, tonumber(t), tonumber(h), tonumber(d)}
    end
  end
end

local function free()
  owner, holds, deadline, ahead, label = NOBODY, 0, 0, 0, ''
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
  queue[at or #queue + 1] = {owner = who, till = till}
  keep = max(keep, till)
  return true
end

-- Ends the place of this owner; whether it had one.
local function leave(who)
  local at = place_of(who)
  if at then table.remove(queue, at) end
  return at ~= nil
end

local function store()
  local head = format('K1 %s %.0f %.0f %.0f %.0f %.0f %.0f', owner, holds, deadline, token, keep, wake, ahead)
  if label ~= '' then head = head .. ' ' .. label end
  local places = {}
  for at = 1, #queue do places[at] = format('>%s %.0f', queue[at].owner, queue[at].till) end
  local record = head .. '|' .. table.concat(done, '|') .. table.concat(places)
  redis.call('SET', key, record, 'PX', ttl_ms(keep))
end

-- Tells who is next, or those who wait, where the lock is free.
local function wake_up()
  if is_live() then return end
  if queue[1] then
    publish(queue[1].owner)
  elseif now < wake then
    publish('')
  end
end

-- Writes the record with this operation remembered for at least `remember` microseconds, and replies.
-- The record is kept until no lease, operation, place or token in it matters.
local function commit(letter, id, remember)
  if #done == REMEMBERED then table.remove(done, 1) end
  done[#done + 1] = format('%s%s %.0f %.0f %.0f', letter, id, holds, deadline, token)
  keep = max(keep, max(now, deadline) + remember, token + 1)
  store()
  return {0, now, DONE, token, holds, deadline}
end

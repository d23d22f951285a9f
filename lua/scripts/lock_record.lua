-- The record of the reentrant lock: a string, which `GET key` shows, such as
--   K1 0000000000000000000000000000a11c 1 1763700030000000 1763700000000000 1763700090000000 0|a00...
-- that is its tag; the owner (32 hex digits; zeros where it is free); how often it is held; the end
-- of the lease (us); the latest fencing token; from when on the record is as if it were not there (us); and
-- until when somebody waits, who is to be woken (us). Behind each | stands one of the last four operations that changed it, the oldest first:
-- its letter (a acquire, n renew, r release, f force-release) and id, and the answer it was given:
-- holds, deadline, token.
local REMEMBERED = 4
local NOBODY = '00000000000000000000000000000000'
local owner, holds, deadline, token, keep, wake = NOBODY, 0, 0, 0, 0, 0
local done = {}   -- the remembered operations, as text

local REFUSED, DONE, TOO_LATE = 0, 1, 2

-- Reads the record, if there is one that counts now; why where it cannot be read.
local function read_lock()
  local record, refused = read('GET', key)
  if refused then return refused end
  if not record then return end
  refused = unlike(record, 'K1')
  if refused then return refused end
  local o, h, d, t, k, w, operations = match(record, '^K1 (%x+) (%d+) (%d+) (%d+) (%d+) (%d+)(.*)$')
  if not o then return {DAMAGED} end
  if now >= tonumber(k) then return end
  owner, holds, deadline = o, tonumber(h), tonumber(d)
  token, keep, wake = tonumber(t), tonumber(k), tonumber(w)
  for operation in string.gmatch(operations, '|([^|]+)') do done[#done + 1] = operation end
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
  owner, holds, deadline = NOBODY, 0, 0
end

local function store()
  local head = format('K1 %s %.0f %.0f %.0f %.0f %.0f', owner, holds, deadline, token, keep, wake)
  redis.call('SET', key, head .. '|' .. table.concat(done, '|'), 'PX', ttl_ms(keep))
end

-- Tells those who wait, once the lock is free.
local function wake_up()
  if holds == 0 and now < wake then publish() end
end

-- Writes the record with this operation remembered for at least `remember` microseconds, and replies.
-- The record is kept until no lease, operation or token in it matters.
local function commit(letter, id, remember)
  if #done == REMEMBERED then table.remove(done, 1) end
  done[#done + 1] = format('%s%s %.0f %.0f %.0f', letter, id, holds, deadline, token)
  keep = max(keep, max(now, deadline) + remember, token + 1)
  store()
  return {0, now, DONE, token, holds, deadline}
end

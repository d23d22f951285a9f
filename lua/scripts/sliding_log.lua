-- The sliding log. A list, which `LRANGE key 0 -1` shows:
--   L1 10 60000000 7 1763700000123456   the head: tag, limit, window (us), the total cost of the
--                                       entries, when the latest was admitted (us)
--   1763700000123456                    an entry: when it was admitted (us); its cost is 1
--   1763700000123456:6                  an entry of another cost
-- in the order of admission. Behind the head stands what `requests` describes. An entry at t counts
-- for every time in [t, t + window). Expired entries go when the next request is admitted, so there are
-- never more than `limit` without a penalty. The latest admission can be newer than the last entry,
-- which a refund may have removed.
--
-- Read in pieces, as far as needed: usually the first one. However many entries have expired at
-- once, no command returns or takes more than 1,000 of them.
local FIRST_PIECE, NEXT_PIECE = 8, 1000
local limit, window                       -- set by open_log
local head                                -- the record's head up to the window, as ARGV has it
local times, costs, count = {}, {}, 0     -- the entries read so far
local expired, used, last = 0, 0, 0       -- expired entries, the cost of the others, the latest's time
local at                                  -- the time that counts: never before the latest entry's

-- Reads more entries; false where there are none, nothing and why where they cannot be read.
local function read_more(size)
  local piece = redis.call('LRANGE', key, count + 1, count + size)
  for i = 1, #piece do
    local time, cost = match(piece[i], '^(%d+):?(%d*)$')
    if not time then return nil, {DAMAGED} end
    count = count + 1
    times[count], costs[count] = tonumber(time), tonumber(cost) or 1
  end
  return #piece > 0
end

-- Reads the log under tag, limit and window in ARGV[first] to ARGV[first + 2], and what of it
-- counts now. Whether there is a record; or nothing and why it cannot be read.
local function open_log(first)
  limit, window = tonumber(ARGV[first + 1]), tonumber(ARGV[first + 2])
  head = table.concat(ARGV, ' ', first, first + 2) .. ' '
  at = now
  local record, refused = read_under(head, 'LINDEX', key, '0')
  if refused then return nil, refused end
  if not record then return false end
  local state, broken = read_state(record, #head + 1, 2, 1)
  if broken then return nil, broken end
  local total, latest = match(state, '^(%d+) (%d+)$')
  if not total then return nil, {DAMAGED} end
  used, last = tonumber(total), tonumber(latest)
  if last > EXACT then return nil, {DAMAGED} end
  at = max(now, last)
  local size = FIRST_PIECE
  repeat
    local more, broken = read_more(size)
    if broken then return nil, broken end
    while expired < count and at >= times[expired + 1] + window do
      expired = expired + 1
      used = used - costs[expired]
    end
    size = NEXT_PIECE
  until not more or expired < count
  return true
end

-- When the smallest prefix of the entries that count, those admitted in this call among them,
-- frees `missing`.
local function freed_at(missing)
  local freed, entry = 0, expired
  repeat
    entry = entry + 1
    if entry > count then
      local more, broken = read_more(NEXT_PIECE)
      if broken then return nil, broken end
      if not more then return at + window end   -- the rest was admitted in this call
    end
    freed = freed + costs[entry]
  until freed >= missing
  return times[entry] + window
end

-- Adds to the reply when enough will have expired for `cost`, 0 where it fits now or never can.
local function add_freed_at(reply, cost)
  local free, broken = 0, nil
  if cost <= limit and cost > max(0, limit - used) then
    free, broken = freed_at(used - (limit - cost))
    if broken then return broken end
  end
  reply[#reply + 1] = free
end

-- The reply's begin: what counts now, and when the latest request was admitted.
local function begin_reply()
  if blocked then return {BLOCKED, now, blocked, used, last} end
  return {0, now, used, last}
end

-- The sliding log. A list, which `LRANGE key 0 -1` shows:
--   L1 10 60000000 7 1763700000123456   the head: tag, limit, window (us), the total cost of the
--                                       entries, when the latest was admitted (us)
--   1763700000123456                    an entry: when it was admitted (us); its cost is 1
--   1763700000123456:6                  an entry of another cost
-- in the order of admission. Behind the head stand the requests that it remembers. An entry at t counts for every time in [t, t + window). Expired
-- entries go when the next request is admitted, so there are never more than `limit`.
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
  local record, refused = read('LINDEX', key, '0')
  if refused then return nil, refused end
  if not record then return false end
  if sub(record, 1, #head) ~= head then
    return nil, unlike(record, ARGV[first]) or {OTHER_LIMIT}
  end
  local state, broken = read_state(record, #head + 1, 2)
  if broken then return nil, broken end
  local total, latest = match(state, '^(%d+) (%d+)$')
  if not total then return nil, {DAMAGED} end
  used, last = tonumber(total), tonumber(latest)
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

-- One outcome: admitted (0 or 1), the cost that counts after it, when enough has expired for it
-- (0 where it was admitted or never can be), when all has (0 where nothing counts).
local function outcome(reply, admitted, cost)
  local n, free = #reply, 0
  if not admitted and cost <= limit then
    local broken
    free, broken = freed_at(used - (limit - cost))
    if broken then return broken end
  end
  reply[n + 1], reply[n + 2], reply[n + 3] = admitted and 1 or 0, used, free
  reply[n + 4] = used > 0 and last + window or 0
end

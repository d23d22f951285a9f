-- Reads the record of any limiter: a string, or a list whose first element is the head.

-- Before the record of a limit that is stored with it for all to follow stands
--   P1 o 60000000 1763700060123456 F1 ...
-- that is P1; whose use counts: o that of all clients, c that of each by itself; for how long it is kept
-- after each write (us), and when it is over (us), unless it is written before: the record then acts as
-- if it were not there.
local LIMIT_IS_STORED, BLOCKED, CLOCK_OFF = $LIMIT_IS_STORED, $BLOCKED, $CLOCK_OFF
local policy        -- what it says, but for the end
local is_there      -- whether the key holds anything, also what does not count any more
local first, newest, ahead   -- what the head of a list says of its entries, where it does, and those that it has

-- The string or the head, and which form it has ('string' or 'list'); nothing where there is none; or
-- nothing, nothing and why it is not the record of a limiter.
local function read_any()
  local form = redis.call('TYPE', key).ok
  local record, refused
  is_there = form ~= 'none'
  if form ~= 'list' then
    record, refused = read(GET, key)
    if not record then return nil, nil, refused end
    record = unpacked(record)
  else
    -- GETEX is for strings, and this, too, changes nothing.
    if GET == 'GETEX' then redis.call('LTRIM', key, '0', '-1') end
    local stored = redis.call('LINDEX', key, '0')
    if sub(stored, 3, 3) == ':' then
      record = unpacked(sub(stored, 1, 35))
      if #stored % 16 == 11 and #stored >= 59 then first, newest = struct.unpack('<dd', stored, 44) end
      ahead = sub(stored, 60)
    else
      local from
      record, newest, from = match(stored, '^([^;]*);(%d+);()')
      record, newest, ahead = record or stored, tonumber(newest), from and sub(stored, from)
    end
  end
  local scope, keep, till, from = match(record or '', '^P1 ([oc]) (%d+) (%d+) ()')
  if scope then
    policy, record = {scope = scope, keep = tonumber(keep), till = tonumber(till)}, sub(record, from)
    if policy.keep < 1 or policy.keep > LONGEST or policy.till > EXACT then return nil, nil, {DAMAGED} end
  end
  local letter, version = match(record or '', '^([LCP$LETTERS])(%d+) ')
  if not version then return nil, nil, {policy and DAMAGED or OTHER_KIND} end
  if version ~= '1' then return nil, nil, {OTHER_VERSION} end
  if letter == 'P' then return nil, nil, {DAMAGED} end
  if policy and now >= policy.till then
    policy = nil
    return
  end
  return record, form
end

-- What every script begins with: its key, its arguments checked, and the time.
--
-- KEYS[1]  the key
-- ARGV[1]  the time in microseconds since the epoch, or empty: then the server's clock decides
-- ARGV[2]  milliseconds added to every expiry: by how much an injected time may be off the server's
--
-- Every reply is {0, now, ...}, from a limiter whose key is blocked {6, now, until, ...}, or, where
-- the key holds something that the script cannot work on, {status}: 1 another kind of record (or of
-- key), 2 another version, 4 damaged, 5 the id was used before, for another operation or another
-- cost, 8 the key's limit is stored with it,
-- 10 the time is outside of what the call knows of a calendar window; 11 a cost by part is of other parts than the
-- stored limit's; 12 a reservation is to be held for longer than its lease; 10 with the time. Nothing is written then. Nothing is written either where the reply is an error that begins with $ARGUMENT,
-- for a wrong argument.
local key = KEYS[1]
local find, match, sub, format = string.find, string.match, string.sub, string.format
local floor, ceil, max = math.floor, math.ceil, math.max
local OTHER_KIND, OTHER_VERSION, DAMAGED, OPERATION_REUSED = $OTHER_KIND, $OTHER_VERSION, $DAMAGED, $OPERATION_REUSED
local EXACT = $EXACT   -- 2^53 - 1: what a record holds is never more
local LONGEST = $LONGEST   -- 2^50: the longest time that a call can ask for (us)

local function wrong_argument(at, expected)
  return redis.error_reply(format('$ARGUMENT ARGV[%d] must be %s', at, expected))
end

-- The first argument from `first` to `last` that is not a whole number in plain digits: tonumber
-- alone would take nan, inf, 0x10, 1e3 and ' 5 '.
local function not_whole(first, last)
  for at = first, last do
    if not ARGV[at] or not find(ARGV[at], '^%d+$') then return at end
  end
end

local function is_id(text)
  return text and #text == 32 and not find(text, '[^%da-f]')
end

if ARGV[1] ~= '' and not_whole(1, 1) then return wrong_argument(1, 'a time in whole microseconds, or empty') end
if not_whole(2, 2) then return wrong_argument(2, 'whole milliseconds') end

-- TIME is read once: between two reads it may differ, up to Redis 7.0.
local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end

-- Milliseconds until `forget`, rounded up and never 0, which would drop the record at once.
local function ttl_ms(forget)
  return format('%.0f', max(1, ceil((forget - now) / 1000)) + tonumber(ARGV[2]))
end

-- Calls a command that reads; a key of another type is another kind of record, not a failure.
local function read(...)
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply.err then
    if find(reply.err, '^WRONGTYPE') then return nil, {OTHER_KIND} end
    return nil, reply
  end
  return reply
end

-- The command that reads a string. A script that frees or keeps something reads by GETEX, which without options changes
-- nothing: a server whose memory is full refuses the first write of a script if it may take memory, but none after
-- another write, and GETEX counts as one.
local GET = 'GET'

-- Why a record that does not begin with `tag`, such as F1, cannot be read under it.
local function unlike(record, tag)
  local kind, version = match(record, '^(%u)(%d+)[ :]')
  if kind ~= sub(tag, 1, 1) then return {OTHER_KIND} end
  if version ~= sub(tag, 2) then return {OTHER_VERSION} end
end

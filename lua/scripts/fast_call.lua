-- What the scripts begin with that most calls take: one command that reads, one that writes where anything is to be
-- written, no functions, since each call would have to make them anew, and numbers that are doubles of eight bytes
-- each, in little-endian order, since Lua turns them into numbers and back for less than text.
--
-- KEYS[1]  the one key
-- ARGV[1]  what is asked for, packed, which the script's part describes
-- ARGV[2]  only where the caller's time decides, not the server's: that time (us since the epoch), and the
--          milliseconds that are added to every expiry: by how much it may be off the server's
--
-- A record that they read is packed, and begins with its tag and a colon: F1:... A key that holds anything else is for
-- the general scripts: the reply is the error LOCKAGE_NEEDS_SLOW_PATH then. What is no number as it should be gets
-- LOCKAGE_ARGUMENT. Nothing is written in either case.
--
-- The reply is numbers, packed, of which the first is the time now (us). The expiry is set anew only where the time until
-- which the new record is kept is another one than that of the old one.
local key, call = KEYS[1], ARGV[1] or ''
local size = #call
local now, skew

local NEEDS_SLOW_PATH = 'LOCKAGE_NEEDS_SLOW_PATH the key holds what only the general scripts can read'
local WRONG_CALL = 'LOCKAGE_ARGUMENT ARGV[1] must be what the script describes, ARGV[2] nothing or time and skew'

if ARGV[2] then
  if #ARGV[2] ~= 16 then return redis.error_reply(WRONG_CALL) end
  now, skew = struct.unpack('<dd', ARGV[2])
  -- The latest time that is accepted is 2^53 - 2^51 - 1.
  if not (now >= 0 and now % 1 == 0 and now < 6755399441055744
    and skew >= 0 and skew % 1 == 0 and skew < 9007199254740992) then
    return redis.error_reply(WRONG_CALL)
  end
else
  local time = redis.call('TIME')
  now, skew = time[1] * 1000000 + time[2], 0
end
local changed = false

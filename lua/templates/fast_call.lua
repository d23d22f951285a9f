-- A script of the fast path: one command that reads, one that writes where anything is to be written, and no
-- functions, since each call would make them anew. Numbers are doubles of eight bytes in little-endian order, which
-- cost Lua less than text.
--
-- KEYS[1]  the one key
-- ARGV[1]  what is asked for, packed
-- ARGV[2]  only where the caller's time decides, not the server's: that time (us since the epoch), and the
--          milliseconds by which it may be off the server's, which are added to every expiry
--
-- The record is packed behind its tag and a colon. On any other record under the key the reply is the error
-- $NEEDS_SLOW_PATH, and for a wrong argument it is $ARGUMENT. Nothing is written in either case.
-- The reply is numbers, packed, of which the first is the time now (us).
local argv, redis, struct = ARGV, redis, struct   -- to find a global costs more than to read a local
local key, call = KEYS[1], argv[1] or ''
local size = #call
local now, skew

local NEEDS_SLOW_PATH = '$NEEDS_SLOW_PATH the key holds what only the scripts of the slow path can read'
local WRONG_CALL = '$ARGUMENT ARGV[1] must be what the script describes, ARGV[2] nothing or time and skew'

if argv[2] then
  if #argv[2] ~= 16 then return redis.error_reply(WRONG_CALL) end
  now, skew = struct.unpack('<dd', argv[2])
  if not (now >= 0 and now % 1 == 0 and now <= $LATEST_TIME
    and skew >= 0 and skew % 1 == 0 and skew <= $EXACT) then
    return redis.error_reply(WRONG_CALL)
  end
else
  local time = redis.call('TIME')
  now, skew = time[1] * 1000000 + time[2], 0
end
local changed = false

-- What the scripts begin with that admit requests to a limit of one counter and one key, which is what most calls
-- ask for: one command that reads, one that writes where anything is admitted, and numbers that are doubles of
-- eight bytes each, in little-endian order, since Lua turns them into numbers and back for less than text.
--
-- KEYS[1]  the one key
-- ARGV[1]  numbers: the configuration, which the machine's part describes, then one or more costs, each at least 1
-- ARGV[2]  only where the caller's time decides, not the server's: that time (us since the epoch), and the
--          milliseconds that are added to every expiry: by how much it may be off the server's
--
-- The record is `tag:` and numbers, the configuration and the state: F1:... A key that holds anything else, such as
-- the record of another limit, or one with something behind its state, is for the general scripts: the reply is
-- the error LOCKAGE_OTHER_LIMIT then. What is no number as it should be gets LOCKAGE_ARGUMENT. Nothing is written
-- in either case.
--
-- The reply is numbers: the time now (us), and the state that was stored, where there was one, from which every
-- decision follows. The expiry is set anew only where the time until which the new state is kept is another one
-- than that of the old one.
local key, call = KEYS[1], ARGV[1] or ''
local size = #call
local now, skew

-- Text, not functions: each call would have to make them anew.
local OTHER_LIMIT = 'LOCKAGE_OTHER_LIMIT the key holds what only the general scripts can read'
local WRONG_CALL = 'LOCKAGE_ARGUMENT ARGV[1] must be the configuration and costs, ARGV[2] nothing or time and skew'

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
-- A key of another type is none of these records.
local record = redis.pcall('GET', key)
local admitted = false

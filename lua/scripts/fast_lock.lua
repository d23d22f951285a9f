-- The record of a lock in whose queue nobody is, as the plain scripts and the general ones write it: `K1:`, the deadline,
-- the token, `keep`, `wake` and `ahead`, each a double; how many holds that ended are remembered, in one byte, and how many
-- there are, in two; the owner, in 16 bytes; the holds that ended, the latest first, each its letter, its id in 16 bytes,
-- its token and, in one byte, how many were left (zeros where the text has none); the ids of the holds, 16 bytes each, the oldest
-- first; and the label. What these are, lock_record.lua says.
local FREE = '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'
local old = record or 'K1:' .. string.rep('\0', 59)   -- what stands behind the owner begins at its byte 63
if #old < 62 then return redis.error_reply(NEEDS_SLOW_PATH) end
local tag, deadline, token, keep, wake, ahead, ends, holds, owner = struct.unpack('<I3dddddI1I2c16', old)
local label = #old - 62 - 26 * ends - 16 * holds
if tag ~= 3813707 or ends > 4 or holds > 256 or label < 0 or label > 64 or holds == 0 and label > 0   -- K1:
  or not (deadline >= 0 and deadline % 1 == 0 and deadline < 9007199254740992
    and token >= 0 and token % 1 == 0 and token < 9007199254740992
    and keep >= 0 and keep % 1 == 0 and keep < 9007199254740992
    and wake >= 0 and wake % 1 == 0 and wake < 9007199254740992
    and ahead >= 0 and ahead % 1 == 0 and ahead <= token) then
  return redis.error_reply(NEEDS_SLOW_PATH)
end
local kept = keep   -- until when the record was kept
if now >= keep then
  deadline, token, keep, wake, ahead, ends, holds, owner = 0, 0, 0, 0, 0, 0, 0, FREE
  kept, old = -1, ''
end
local live = holds > 0 and now < deadline

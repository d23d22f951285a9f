-- Tells the holders of the lock; writes nothing. GET.
--
-- Reply    {0, now, time} until when a writer that waits keeps new readers out (us; 0: none does), and for
--          each grant, the oldest first: 0 (reads) or 1 (writes), the owner in four parts of 32 bits, token,
--          holds, deadline
$rw_lock_record
local refused = read_rw_lock()
if refused then return refused end
local reply = {0, now, kept_till}
for _, grant in ipairs(grants) do
  local n = #reply
  reply[n + 1] = grant.mode == 'w' and 1 or 0
  reply[n + 2], reply[n + 3], reply[n + 4], reply[n + 5] = unpack('>I4I4I4I4', grant.owner)
  reply[n + 6], reply[n + 7], reply[n + 8] = grant.token, grant.holds, grant.deadline
end
return reply

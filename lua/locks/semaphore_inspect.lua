-- Tells what is in use; writes nothing. GET.
--
-- Reply    {0, now, permits in use, live grants} and, for each of the $MAX_INSPECTED that end first: the permit's id in
--          four parts of 32 bits, count, token, deadline
$semaphore_record
local refused = read_semaphore()
if refused then return refused end
local reply = {0, now, used, live}
for at = first, first + 42 * math.min(live, $MAX_INSPECTED) - 42, 42 do
  local n = #reply
  reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = unpack('>I4I4I4I4', record, at)
  reply[n + 5], reply[n + 6], reply[n + 7] = unpack('<I2dd', record, at + 16)
end
return reply

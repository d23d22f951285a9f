-- Tells what is in use; writes nothing. GET.
--
-- Reply    {0, now, permits in use, live grants} and, for each of the $MAX_INSPECTED oldest: the permit's id in four
--          parts of 32 bits, count, token, deadline
$semaphore_record
local refused = read_semaphore()
if refused then return refused end
local reply = {0, now, used, #grants}
for i = 1, math.min(#grants, $MAX_INSPECTED) do
  local grant = grants[i]
  add_id(reply, grant.id)
  local n = #reply
  reply[n + 1], reply[n + 2], reply[n + 3] = grant.count, grant.token, grant.deadline
end
return reply

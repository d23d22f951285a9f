-- Tells the holder of the lock, and how many wait in line; writes nothing. GET.
--
-- Reply    {0, now, places} and, where somebody does, the holder that `add_holder` describes, since when (us), and
--          the characters of its label, six in each number but the last, the first one highest
$lock_record
local refused = read_lock()
if refused then return refused end
local reply = add_holder({0, now, #queue})
if is_live() then
  reply[#reply + 1] = token - ahead
  for at = 1, #label, 6 do
    local packed = 0
    for _, byte in ipairs({string.byte(label, at, at + 5)}) do packed = packed * 256 + byte end
    reply[#reply + 1] = packed
  end
end
return reply

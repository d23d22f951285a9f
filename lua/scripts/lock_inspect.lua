-- Tells who holds the lock; writes nothing. GET.
--
-- Reply    {0, now} and, where somebody does, the holder that `add_holder` describes
local refused = read_lock()
if refused then return refused end
return add_holder({0, now})

-- Gives up an owner's place in the queue. GETEX, and SET where it has one; then `publish`, where the lock is free and
-- somebody waits.
--
-- ARGV[3]  the owner, 32 hex digits
-- Reply    {0, now}
$lock_record
GET = 'GETEX'
if not is_id(ARGV[3]) then return wrong_argument(3, 'an id of 32 hex digits') end
local refused = read_lock()
if refused then return refused end
if leave(ARGV[3]) then store() end
wake_up()
return {0, now}

-- Takes the lock for reading or for writing, or holds it once more for an owner that has it so. GET, and SET
-- where that was done now, where a copy of it may arrive for longer, or where it says that somebody waits, or that a
-- writer keeps new readers out.
--
-- ARGV[3]  r to read, w to write
-- ARGV[4]  the owner, 32 hex digits
-- ARGV[5]  the hold's id, 32 hex digits
-- ARGV[6]  the lease (us)
-- ARGV[7]  refuse after this time (us)
-- ARGV[8]  for how long the caller waits before it is back (us), 0 where it does not: where others are in its
--          way, the record says so, and a write keeps new readers out until then
-- Reply    {0, now, 1, token, holds, deadline} the grant, made now or before;
--          {0, now, 0, time} refused: others hold it or wait for it, until then at most (us);
--          {0, now, 3, time} refused: the owner reads, and others read until then at most (us);
--          {0, now, 4, time} refused: there are $MAX_READERS readers, or $MAX_SIDE_HOLDS holds of this owner, until then at most (us);
--          {0, now, 5, time} it came after ARGV[7], or that is no later than a copy of an acquire that is forgotten may
--          arrive: until then (us)
$rw_lock_record
local wrong = wrong_owner()
if wrong then return wrong end
if not is_id(ARGV[5]) then return wrong_argument(5, 'an id of 32 hex digits') end
wrong = not_span(6, 6)
if wrong then return wrong_argument(wrong, 'from 1 to 2^50 us') end
wrong = not_whole(7, 8)
if wrong then return wrong_argument(wrong, 'whole microseconds') end
local span = tonumber(ARGV[8])
if span > LONGEST then return wrong_argument(8, 'at most 2^50 us') end
local mode, owner, hold = ARGV[3], bytes_of(ARGV[4]), bytes_of(ARGV[5])

-- Until when, and how, a fresh grant to read is refused; nothing where it is not.
local function read_refused()
  local readers, first, till = 0, nil, kept_till
  for _, grant in ipairs(grants) do
    if grant.mode == 'r' then
      readers = readers + 1
      first = math.min(first or grant.deadline, grant.deadline)
    elseif grant.owner == owner then
      till = 0
    else
      till = max(till, grant.deadline)
    end
  end
  if till > 0 then return till, REFUSED end
  if readers >= READERS then return first, TOO_MANY end
end

-- The same of one to write.
local function write_refused()
  local till, why = nil, REFUSED
  for _, grant in ipairs(grants) do
    if grant.owner == owner then
      why = UPGRADE
    else
      till = max(till or 0, grant.deadline)
    end
  end
  return till, why
end

local refused = read_rw_lock()
if refused then return refused end
local not_after = tonumber(ARGV[7])
local bound = bound_of(not_after)
for _, grant in ipairs(grants) do
  if hold_at(grant, hold) then
    if grant.mode ~= mode or grant.owner ~= owner then return {OPERATION_REUSED} end
    if grant.bound < bound then
      grant.bound = bound
      know(bound)
      commit()
    end
    return held(grant)
  end
end
for _, one in ipairs(released) do
  if one.id == hold then return {OPERATION_REUSED} end
end
if now > not_after or not_after <= forgotten then return {0, now, TOO_LATE, forgotten} end

local lease_end = now + tonumber(ARGV[6])
local grant = grant_of(mode, owner)
if grant then
  if grant.holds >= HOLDS then return {0, now, TOO_MANY, grant.deadline} end
  grant.holds, grant.ids = grant.holds + 1, grant.ids .. hold
  grant.bound = max(grant.bound, bound)
  grant.deadline = max(grant.deadline, lease_end)
else
  local till, why
  if mode == 'r' then till, why = read_refused() else till, why = write_refused() end
  if till then
    local is_new = waits(span)
    if mode == 'w' and why == REFUSED and span > 0 and now + span > kept_till then
      kept_till, is_new = now + span, true
    end
    if is_new then commit() end
    return {0, now, why, till}
  end
  if mode == 'w' then kept_till = 0 end
  token = max(now, token + 1)
  grant = {mode = mode, owner = owner, token = token, deadline = lease_end, bound = bound, holds = 1, ids = hold}
  grants[#grants + 1] = grant
end
know(bound)
commit()
return held(grant)

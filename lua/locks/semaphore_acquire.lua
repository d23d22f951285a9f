-- Takes permits, all or none. GET, and SET where it took them now, where a copy of it may arrive for longer, or where it
-- says that somebody waits.
--
-- ARGV[3]  the permit's id, 32 hex digits, which names the grant
-- ARGV[4]  how many
-- ARGV[5]  how many permits there are
-- ARGV[6]  the lease (us)
-- ARGV[7]  refuse after this time (us)
-- ARGV[8]  for how long the caller waits before it is back (us), 0 where it does not: where it does not fit,
--          the record says so
-- Reply    {0, now, 1, count, token, deadline} the grant, made now or before;
--          {0, now, 0, time} it does not fit, and would from then on (us);
--          {0, now, 3} there are not so many permits;
--          {0, now, 4, time} it came after ARGV[7], or that is no later than a copy of an acquire that is forgotten may
--          arrive: until then (us)
$semaphore_record
if not is_id(ARGV[3]) then return wrong_argument(3, 'an id of 32 hex digits') end
local wrong = not_whole(4, 5)
if wrong then return wrong_argument(wrong, 'a whole number') end
local count, permits = tonumber(ARGV[4]), tonumber(ARGV[5])
if count < 1 or count > EXACT then return wrong_argument(4, 'at least 1 and below 2^53') end
if permits < 1 or permits > MOST then return wrong_argument(5, 'from 1 to $MAX_PERMITS') end
wrong = not_span(6, 6)
if wrong then return wrong_argument(wrong, 'from 1 to 2^50 us') end
wrong = not_whole(7, 8)
if wrong then return wrong_argument(wrong, 'whole microseconds') end
if tonumber(ARGV[8]) > LONGEST then return wrong_argument(8, 'at most 2^50 us') end

local id = bytes_of(ARGV[3])
local refused = read_semaphore(id, nil, permits - count)
if refused then return refused end
local not_after = tonumber(ARGV[7])
local bound = bound_of(not_after)
if own and own.count == count then
  if own.bound < bound then
    own.bound = bound
    know(bound)
    commit(own.at, id, own)
  end
  return held(own)
end
if own or given_back then return {OPERATION_REUSED} end
if now > not_after or not_after <= forgotten then return {0, now, TOO_LATE, forgotten} end
if count > permits then return {0, now, NEVER} end
if fits_at then
  if waits(tonumber(ARGV[8])) then commit() end
  return {0, now, FULL, fits_at}
end
token = max(now, token + 1)
local grant = {count = count, token = token, deadline = now + tonumber(ARGV[6]), bound = bound}
know(bound)
commit(nil, id, grant)
return held(grant)

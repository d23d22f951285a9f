-- Changes what a limiter has counted, or blocks its key, under any limit and whatever limit the record
-- was written under: it is converted, which `conversion` describes. Writes as `limiter_acquire` does,
-- where anything was done or converted.
--
-- ARGV[3]  empty, or an id for an adjustment that may be sent again, which `read_request` describes
-- ARGV[4]  what to do:
--            t  take up to ARGV[5] of what remains, nothing where the key is blocked
--            f  refund: give back up to ARGV[5], of a log from its newest entries on
--            p  penalty: charge ARGV[5] whether it fits or not, up to twice the capacity
--            b  block the key for ARGV[5] us from now on, or for as long as it is blocked already
--            u  unblock the key
-- ARGV[5]  a whole number, at least 1, but 0 to unblock; for f and p it may be one for each part, each with a + before
--          it and not all 0, such as +1+950, of which the logs' are the same
-- ARGV[6]  and on: the limit, as `limiter_acquire` takes it
-- Reply    {0, now, done, until}: what was taken, given back, charged (by the part where that is most),
--          the time until the end of the block, or 1 where the key was unblocked and 0 where it was not
--          blocked; until when it is blocked now, else 0. Then each part's state after it, as
--          `limiter_acquire` replies it, and for each log, when enough will have expired for a cost of
--          1, 0 where it fits. One that is remembered gets the reply that it got.
$any_limit
$penalty
local letter, done = ARGV[4], 0
if not find(letter or '', '^[tfpbu]$') then return wrong_argument(4, 't, f, p, b or u') end
local amount, by_part = read_cost(5)
if not amount or by_part and not find(letter, '[fp]') then return wrong_argument(5, 'a whole number') end
local largest = letter == 'b' and LONGEST or EXACT
if (letter == 'u') ~= (amount == 0) or amount > largest then
  return wrong_argument(5, '0 to unblock, else 1 to 2^53 - 1, of a block to 2^50 us')
end
if letter == 'f' or letter == 'u' then GET = 'GETEX' end
local behind, refused = read_limit(6)
if refused then return refused end
if ARGV[behind] then return wrong_argument(behind, 'absent') end
refused = read_request(#ARGV) or read_record() or take_costs(by_part)
if refused then return refused end

local again = repeated(amount, letter)
if again then return told(again) end

if is_off then return told({CLOCK_OFF, now}) end
local change = {}

function change.t()
  done = blocked and 0 or math.min(amount, remaining())
  if done > 0 then charge(done) end
end

function change.f()
  for i, part in ipairs(parts) do
    local cost = cost_of(i, amount)
    done = max(done, math.min(cost, used(part)))
    if not part.is_log then counter_give_back(part, cost) end
    -- What a window gives back may be that of a reservation.
    if part.window_of and cost > 0 then generation = nil end
  end
  if logs[1] then take_back(logs, cost_of_logs(amount)) end
end

function change.p()
  done = penalize(amount)
end

function change.b()
  blocked = max(blocked or now, now + amount)
  done = blocked - now
end

function change.u()
  done, blocked = blocked and 1 or 0, nil
end

change[letter]()
local reply = {0, now, done, blocked or 0}
add_states(reply)
each = nil
add_freed_at(reply, 1)
each = by_part
if broken then return {DAMAGED} end
if done == 0 then id = nil end   -- what did nothing is not remembered
if done > 0 or converted then store(amount, as_text(reply, 3), letter) end
return told(reply)

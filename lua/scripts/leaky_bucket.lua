-- The machine of the leaky bucket as a queue, on top of the token bucket's: what is missing from that one is
-- what waits in this one, and `queue` is its burst. The turn of a request is when all that was there before
-- it has drained.
-- Terms: patience (us), the longest that the turn of a request may be away when it is admitted.
local bucket = machines.T1
machines = {Q1 = {config = 3, terms = 1, state = bucket.state, format = bucket.format}}

function machines.Q1.new(numerator, denominator, queue, patience)
  local settle, charge, fresh_at = bucket.new(numerator, denominator, queue)
  local function charge_in_time(cost, deficit, last)
    if fresh_at(deficit, last) - now <= patience then return charge(cost, deficit, last) end
  end
  return settle, charge_in_time, fresh_at
end

-- The machine of the leaky bucket as a queue, on top of the token bucket's: what is missing from that one is
-- what waits in this one, and `queue` is its burst. The turn of a request is when all that was there before
-- it has drained.
-- Terms: patience (us), the longest that the turn of a request may be away when it is admitted.
local token_bucket = machine.new
machine.tag, machine.terms = 'Q1', 1

function machine.new(numerator, denominator, queue, patience)
  local settle, charge, fresh_at = token_bucket(numerator, denominator, queue)
  local function charge_in_time(cost, deficit, last)
    if fresh_at(deficit, last) - now <= patience then return charge(cost, deficit, last) end
  end
  return settle, charge_in_time, fresh_at
end

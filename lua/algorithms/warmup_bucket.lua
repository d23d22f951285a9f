-- The token bucket with a warm-up. A token is `unit` parts. In the k-th step from a cold start, k from 1 to 10, each
-- microsecond brings k * rate parts. The warm-up goes on while parts are missing, and back while none are.
-- @tag U1
-- @like token_bucket
-- @config rate unit burst step: as of the token bucket, with ten parts for each of its parts; and the length of a step (us)
-- @state deficit last warmth: the parts that are missing from a full bucket, when the latest request was admitted (us), and how warm it was then, from 0 to nine steps (us)
-- @warmth warmth

-- @wrong
wrong = unit % 10 ~= 0 or burst * unit > $EXACT or rate * 10 > $EXACT or (step - 1) * 20 >= $SPAN

-- @most
most = math.min($EXACT, $SPAN / 2 * rate)

-- @new
deficit, last, warmth = 0, now, 0

-- @settle
if now > last then
  local missing, time = deficit, now - last
  $refill
  deficit, last, warmth = missing, now, math.max(0, warmth - time)
end

-- @refill
-- Lets parts come back, for `time` at most. As many as 2^53 may round, but not below what is missing.
while missing > 0 and time > 0 do
  local number = math.min(9, (warmth - warmth % step) / step)
  local spent = math.min(time, math.ceil(missing / (rate * (number + 1))))
  if number < 9 then spent = math.min(spent, (number + 1) * step - warmth) end
  missing = math.max(0, missing - spent * rate * (number + 1))
  warmth, time = math.min(9 * step, warmth + spent), time - spent
end

-- @left
left = (burst * unit - deficit) / unit

-- @reply
$stored_reply

-- @fresh_at
do
  local missing, time, warmth = deficit, $EXACT, warmth
  $refill
  till = last + ($EXACT - time) + warmth
end

-- @unused
till = last + warmth

-- @span
local full = burst * unit
span = (full - full % rate) / rate + 1 + 10 * step

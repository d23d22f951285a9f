-- The token bucket with interval refill. A full bucket counts its intervals anew from its next use, as a forgotten one
-- does.
-- @tag I1
-- @config amount interval burst: how many tokens come at the end of each interval, its length (us), and how many the bucket holds
-- @state deficit anchor: the tokens that are missing from a full bucket, and where the running interval began (us)
-- @capacity burst
-- @counted deficit
-- @latest anchor
-- @window interval

-- @wrong
wrong = interval > $SPAN

-- @most
most = math.min($EXACT, math.floor($SPAN / interval) * amount)

-- @new
deficit, anchor = 0, now

-- @settle
local passed = 0   -- since the anchor, in whole intervals
if now > anchor then passed = now - anchor - (now - anchor) % interval end
-- A refill past 2^53 may round, but stays above every deficit.
deficit = deficit - passed / interval * amount
if deficit > 0 then
  anchor = anchor + passed
else
  deficit = 0
  if now > anchor then anchor = now end
end

-- @left
left = burst - deficit

-- @fresh_at
till = anchor + math.ceil(deficit / amount) * interval

-- @unused
till = anchor

-- @span
span = math.ceil(burst / amount) * interval

-- @keep
if deficit <= burst then
  till = anchor - anchor % span + 2 * span
  if till > $EXACT then till = $EXACT end
else
  $fresh_at
end

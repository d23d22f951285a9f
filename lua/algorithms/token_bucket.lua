-- The token bucket with continuous refill. A token is `unit` parts, and each microsecond brings `rate` parts: the rate
-- in tokens per microsecond is the reduced fraction rate / unit.
-- @tag T1
-- @config rate unit burst: the numerator and the denominator of the rate, and how many tokens the bucket holds
-- @state deficit last: the parts that are missing from a full bucket, and when the latest request was admitted (us)
-- @capacity burst
-- @counted deficit
-- @unit unit
-- @latest last

-- @wrong
wrong = burst * unit > $EXACT

-- @most
most = math.min($EXACT, $SPAN * rate)

-- @new
deficit, last = 0, now

-- @settle
if now > last then
  -- A refill past 2^53 may round, but stays above every deficit.
  deficit = deficit - (now - last) * rate
  if deficit < 0 then deficit = 0 end
  last = now
end

-- @left
-- A fraction of a token may be left; compared with whole costs, and with some of them taken off, it is exact.
left = (burst * unit - deficit) / unit

-- @reply
-- One integer, the deficit now, unless the clock is behind the record.
if last == now then
  reply = deficit
else
  reply = struct.pack('<ddd', now, deficit, last)
end

-- @fresh_at
till = last + math.ceil(deficit / rate)

-- @unused
till = last

-- @span
local full = burst * unit
span = (full - full % rate) / rate + 1

-- @keep
if deficit <= burst * unit then
  till = last - last % span + 2 * span
  if till > $EXACT then till = $EXACT end
else
  $fresh_at
end

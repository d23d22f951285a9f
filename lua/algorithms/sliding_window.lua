-- The sliding window counter. Windows are aligned to the epoch. Of the window before, as much counts as the sliding
-- window covers of it: ceil(previous * ahead / window).
-- @tag S1
-- @config limit window: how much, and in how long (us)
-- @state previous current last: what was admitted in the window before the latest request's, what in that one, and when that request was admitted (us)
-- @capacity limit
-- @counted current
-- @previous previous
-- @latest last
-- @window window

-- @wrong
wrong = window > $SPAN

-- @most
local split = math.floor($TWO_52 / window)
most = math.min($EXACT, math.floor($EXACT / window) * split + split - 1)

-- @new
previous, current, last = 0, 0, now

-- @settle
if now > last then
  local start = last - last % window
  last = now
  if now >= start + 2 * window then
    previous, current = 0, 0
  elseif now >= start + window then
    previous, current = current, 0
  end
end

-- @identity
identity = (last - last % window) / window

-- @left
left = limit - current
if previous > 0 then
  -- In two steps, each exact below 2^53: with previous = a * split + b it is split * (a * ahead) / window +
  -- (b * ahead) / window, where a * ahead < 2^53 and split * window <= 2^52.
  local split = ($TWO_52 - $TWO_52 % window) / window
  local ahead = window - last % window
  local b = previous % split
  local a = (previous - b) / split
  local rest = a * ahead % window
  left = left - (a * ahead - rest) / window * split - math.ceil((split * rest + b * ahead) / window)
end

-- @fresh_at
till = last - last % window + 2 * window

-- @unused
till = last
if previous > 0 then till = last - last % window + window end

-- @keep
$fresh_at

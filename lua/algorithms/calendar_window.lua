-- The calendar window: a day, week, month or year of a time zone. Scripts know no zones: each call gives the boundaries of
-- three windows that follow each other, among which the time now chooses. A window that is stored and has not ended
-- stands; a time before its beginning counts as its beginning.
-- @tag Y1
-- @config limit unit zone: how much, in which unit (1 day, 2 week, 3 month, 4 year), and the number of the time zone
-- @given first this next last: the boundaries (us): the caller's own time is from `this` to `next`
-- @state opened closes used: when the window began and when it ends (us), and what was admitted in it
-- @capacity limit
-- @counted used
-- @latest opened

-- @wrong
wrong = unit > 4 or zone > $ZONES

-- @most
most = $EXACT

-- @off
off = (not closes or now >= closes) and (now < first or now >= last)

-- @new
closes = 0
$settle

-- @settle
if now >= closes then
  used = 0
  if now < this then
    opened, closes = first, this
  elseif now < next then
    opened, closes = this, next
  else
    opened, closes = next, last
  end
end

-- @identity
identity = closes

-- @left
left = limit - used

-- @reply
-- Settled: what was given to settle it is not at hand later.
reply = struct.pack('<d$D_STATE', now, $state)

-- @fresh_at
till = closes

-- @keep
$fresh_at

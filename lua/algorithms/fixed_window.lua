-- The fixed window. The first request that is admitted outside of a window opens one: [opened, opened + window).
-- A window with nothing used, which a refund leaves, is not open. A time before the opening counts as the opening.
-- @tag F1
-- @config limit window: how much, and for how long (us)
-- @state opened used: when the window was opened (us), and what was admitted in it
-- @capacity limit
-- @counted used
-- @latest opened
-- @window window

-- @wrong
wrong = window > $SPAN

-- @most
most = $EXACT

-- @new
opened, used = now, 0

-- @settle
if used == 0 or now >= opened + window then
  used = 0
  if now > opened then opened = now end
end

-- @identity
identity = opened

-- @left
left = limit - used

-- @fresh_at
till = opened + window

-- @unused
till = opened

-- @keep
$fresh_at

-- Requests in flight: each takes places, and gives them back at its end. The windows are those of the sliding window, and as
-- long as a lease: a place is taken until the end of the window after the one in which it was taken or renewed.
-- @tag N1
-- @like sliding_window
-- @config limit window: how many places, and how long one is kept at least, which is the lease (us)
-- @lease window

-- @wrong
wrong = window > $LONGEST

-- @most
most = $EXACT

-- @left
left = limit - current - previous

-- @keep
if current > 0 then
  $fresh_at
else
  $unused
end

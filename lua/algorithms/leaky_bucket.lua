-- The leaky bucket as a queue. It counts as the token bucket does: what is missing there waits here, `burst` is the
-- size of the queue, and `rate` is how fast it drains. The turn of a request is when all that was there before it has
-- drained.
-- @tag Q1
-- @like token_bucket
-- @call max_wait: the longest that the turn of a request may be away when it is admitted (us)

-- @wait
if last + math.ceil(deficit / rate) - now > max_wait then left = 0 end

-- @reply
$stored_reply

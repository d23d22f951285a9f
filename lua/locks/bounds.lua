-- Until when copies of operations may arrive and be done: their bounds (us; 0 without one).
--
-- The latest bound of what is no longer remembered, until that has passed: an operation that is not for later may be a
-- copy of one of those. And the latest bound of all that the record knows.
local forgotten, latest = 0, 0

-- Knows something of this bound: the record is kept until no copy of it can arrive in time.
local function know(bound)
  latest = max(latest, bound)
end

-- Forgets something of this bound. Copies that arrive after it are too late by themselves.
local function forget(bound)
  if now <= bound then forgotten = max(forgotten, bound) end
end

-- The bound of an operation that is refused after this time (us).
local function bound_of(not_after)
  return not_after < $LATEST_TIME and not_after or 0
end

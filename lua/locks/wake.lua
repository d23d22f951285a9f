-- Until when somebody waits for the key, who is to be told once there is room. Needs `publish`.
local wake = 0   -- (us)

-- Somebody waits, and is back within so many microseconds (0: nobody). Whether that is to be written down:
-- no more often than once in half of that, however many wait.
local function waits(span)
  if span == 0 or wake >= now + ceil(span / 2) then return false end
  wake = now + span
  return true
end

-- Tells the waiters, if there are any: 1, or 0.
local function wake_up()
  if now >= wake then return 0 end
  publish('')
  return 1
end

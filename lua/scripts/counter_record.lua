-- The record of a limiter whose state is a few integers: a string such as
--   F1 10 60000000 1763700000123456 3
-- that is its tag (the kind and the version of the format), its configuration, its state, which
-- the machine's part describes, and what `requests` describes; `GET key` shows it. The head, up to
-- the state, is what the client sends in ARGV, so that a record of another limit is told by one
-- comparison.

-- The record's head and, where there is one, its state; or nothing and why it cannot be read.
local function read_counter(first, last)
  local head = table.concat(ARGV, ' ', first, last) .. ' '
  local record, refused = read_under(head, 'GET', key)
  if refused then return nil, refused end
  if not record then return head end
  local state, broken = read_state(record, #head + 1, 0, 0)
  return head, broken, state
end

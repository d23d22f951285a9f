-- What a record is made of that is a string: its tag and a space, then pieces with | between them.

-- The pieces behind the tag, the head first; or nothing and why there are none: none either where the key
-- holds nothing.
local function read_pieces(tag)
  local record, refused = read(GET, key)
  if refused then return nil, refused end
  if not record then return end
  refused = unlike(record, tag)
  if refused then return nil, refused end
  local pieces = {}
  for piece in string.gmatch(sub(record, #tag + 2) .. '|', '([^|]*)|') do pieces[#pieces + 1] = piece end
  return pieces
end

-- The whole numbers that a text of this pattern is; nothing where it is another.
local THREE, FOUR = '^(%d+) (%d+) (%d+)$', '^(%d+) (%d+) (%d+) (%d+)$'
local function numbers(text, pattern)
  local a, b, c, d = match(text, pattern)
  a, b, c, d = tonumber(a), tonumber(b), tonumber(c), tonumber(d)
  if a and a <= EXACT and b <= EXACT and c <= EXACT and (d or 0) <= EXACT then return a, b, c, d end
end

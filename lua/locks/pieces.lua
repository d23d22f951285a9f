-- What a record is made of that is a string: its tag and a space, then pieces with | between them.
local LATEST_END = $LATEST_END   -- no record that lockage wrote holds a later token

-- The pieces behind the tag, the head first; or nothing and why there are none: none either where the key
-- holds nothing.
local function read_pieces(tag)
  local record, refused = read('GET', key)
  if refused then return nil, refused end
  if not record then return end
  refused = unlike(record, tag)
  if refused then return nil, refused end
  local pieces = {}
  for piece in string.gmatch(sub(record, #tag + 2) .. '|', '([^|]*)|') do pieces[#pieces + 1] = piece end
  return pieces
end

-- The `n` whole numbers, up to three, a space between them, that a text is; nothing where it is not.
local NUMBERS = {'^(%d+)$', '^(%d+) (%d+)$', '^(%d+) (%d+) (%d+)$'}
local function numbers(text, n)
  local a, b, c = match(text, NUMBERS[n])
  a, b, c = tonumber(a), tonumber(b), tonumber(c)
  if a and a <= EXACT and (b or 0) <= EXACT and (c or 0) <= EXACT then return a, b, c end
end

-- The first argument from `first` to `last` that is not a time to last: 1 to 2^50 us.
local function not_span(first, last)
  for at = first, last do
    if not_whole(at, at) or tonumber(ARGV[at]) < 1 or tonumber(ARGV[at]) > LONGEST then return at end
  end
end

-- Appends an id to a reply, in four parts of 32 bits.
local function add_id(reply, id)
  for part = 0, 3 do reply[#reply + 1] = tonumber(sub(id, part * 8 + 1, part * 8 + 8), 16) end
end

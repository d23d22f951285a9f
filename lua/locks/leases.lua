-- What records in binary are made of: a tag and a colon, doubles, counts of one or two bytes, and ids of 16.
local LATEST_END = $LATEST_END   -- no record that lockage wrote holds a later token
local pack, unpack = struct.pack, struct.unpack

-- The record, if there is one; or nothing and why it cannot be read.
local function read_binary(tag)
  local record, refused = read(GET, key)
  if refused or not record then return nil, refused end
  if sub(record, 1, #tag + 1) ~= tag .. ':' then return nil, unlike(record, tag) or {DAMAGED} end
  return record
end

-- Whether these are whole numbers in the exact range, and a bound.
local function are_sound(one, other, bound)
  return one >= 0 and one <= EXACT and one % 1 == 0 and other >= 0 and other <= EXACT and other % 1 == 0
    and bound >= 0 and bound < $LATEST_TIME and bound % 1 == 0
end
$ids
$bounds

-- The record of a counter with nothing behind its state, or the head of such a log, which is packed: `F1:` and a double of 8 bytes, in little-endian
-- order, for each number of `F1 10 60000000 1763700000123456 3`. The plain scripts read no other form.
local NUMBERS = {F1 = 4, S1 = 5, T1 = 5, I1 = 5, Q1 = 5, L1 = 4}   -- how many there are

-- A record as it is stored, from its text.
local function packed(text)
  local tag, numbers = sub(text, 1, 2), {}
  if not NUMBERS[tag] or find(text, '|', 1, true) then return text end
  for number in string.gmatch(sub(text, 4), '%d+') do numbers[#numbers + 1] = tonumber(number) end
  return tag .. ':' .. struct.pack('<' .. string.rep('d', NUMBERS[tag]), unpack(numbers))
end

-- The text of a record as it is stored; what is no number stands there as ?.
local function unpacked(record)
  local tag, from = match(record, '^(%u%d+):()')
  if not tag then return record end
  local whole = floor((#record - from + 1) / 8)
  for _ = 1, whole do
    local number
    number, from = struct.unpack('<d', record, from)
    local is_right = number >= 0 and number <= EXACT and number % 1 == 0
    tag = tag .. (is_right and format(' %.0f', number + 0) or ' ?')
  end
  if whole == 0 or from <= #record then return tag .. ' ?' end
  return tag
end

-- The end of the stretch after that in which `time` is, where each is so long, as far as times are exact.
local function next_stretch_ends(time, length)
  return math.min((floor(time / length) + 2) * length, EXACT)
end

-- The record of a counter with nothing behind its state but reservations, or the head of a log with nothing, is packed:
-- `F1:` and a double of 8 bytes, in little-endian order, for each number of `F1 10 60000000 1763700000123456 3`. The fast path reads no other.
-- Several counters have behind C1: the letters of their tags as one number, the first in its lowest byte, and then all
-- numbers of C1 F1 10 60000000 T1 1 10 20 1763700000123456 3 30 1763700000123456.
local CONFIGS, STATES = {$LOG = 2}, {}   -- how many numbers of a part are its configuration, and of a counter its state
$for_each_algorithm
CONFIGS.$TAG, STATES.$TAG = $CONFIGS, $STATES
$end

-- A record as it is stored, from its text.
local function packed(text)
  local tag, numbers = sub(text, 1, 2), {}
  local several = tag == '$COMPOSITE' and not find(text, ' $LOG ', 1, true)
  if not (CONFIGS[tag] or several) or find(text, '|[^r]') then return text end
  if several then
    local place = 1
    numbers[1] = 0
    for letter in string.gmatch(text, ' (%u)') do
      numbers[1], place = numbers[1] + string.byte(letter) * place, place * 256
    end
  end
  for number in string.gmatch(text, ' (%d+)') do numbers[#numbers + 1] = tonumber(number) end
  return tag .. ':' .. struct.pack('<' .. string.rep('d', #numbers), unpack(numbers))
end

-- Puts the tags of several counters in the place of their letters, each before its configuration; where their states end.
local function put_tags(words)
  local letters, place, states = tonumber(words[2]), 2, 0
  if not letters then return #words end
  table.remove(words, 2)
  while letters > 0 do
    local tag = string.char(letters % 256) .. '1'
    table.insert(words, math.min(place, #words + 1), tag)
    letters, place, states = floor(letters / 256), place + 1 + (CONFIGS[tag] or 0), states + (STATES[tag] or 0)
  end
  return place - 1 + states
end

-- The text of a record as it is stored; what is no number stands there as ?.
local function unpacked(record)
  local tag, from = match(record, '^(%u%d+):()')
  if not tag then return record end
  local words, whole = {tag}, floor((#record - from + 1) / 8)
  for i = 1, whole do
    local number
    number, from = struct.unpack('<d', record, from)
    local is_right = number >= 0 and number <= EXACT and number % 1 == 0
    words[1 + i] = is_right and format('%.0f', number + 0) or '?'
  end
  if whole == 0 or from <= #record then words[#words + 1] = '?' end
  local own = STATES[tag] and 1 + CONFIGS[tag] + STATES[tag] or #words
  if tag == '$COMPOSITE' then own = put_tags(words) end
  if own >= #words then return table.concat(words, ' ') end
  return table.concat(words, ' ', 1, own) .. '|r ' .. table.concat(words, ' ', own + 1)
end

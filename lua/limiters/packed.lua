-- The record of a counter with nothing behind its state but reservations, or the head of a log with nothing, is packed:
-- `F1:` and a double of 8 bytes, in little-endian order, for each number of `F1 10 60000000 1763700000123456 3`. With
-- nothing behind it but requests that were admitted it begins with `F1|`, and goes on as `fast_requests` describes. The
-- fast path reads no other.
-- Several counters have behind C1: the letters of their tags as one number, of five bits for each, from 1 for A, the first
-- in the lowest, and then all numbers of C1 F1 10 60000000 T1 1 10 20 1763700000123456 3 30 1763700000123456.
local CONFIGS, STATES = {$LOG = 2}, {}   -- how many numbers of a part are its configuration, and of a counter its state
$for_each_algorithm
CONFIGS.$TAG, STATES.$TAG = $CONFIGS, $STATES
$end

-- The bytes of numbers in a text.
local function as_doubles(text)
  local numbers = {}
  for number in string.gmatch(text, '%d+') do numbers[#numbers + 1] = tonumber(number) end
  return struct.pack('<' .. string.rep('d', #numbers), unpack(numbers))
end

-- The record of a counter with requests behind its state, from its text; nothing where more stands there.
local function packed_requests(tag, text)
  local state, head, requests = match(text, '^..([^|]*)|q([ %d]+)(.*)$')
  if not STATES[tag] or not head or string.gsub(requests, '|%x+ %d+[ %d]+', '') ~= '' then return text end
  local record = {tag .. '|' .. as_doubles(state .. head)}
  for id, numbers in string.gmatch(requests, '|(%x+)([ %d]+)') do
    id = string.gsub(id, '%x%x', function(byte) return string.char(tonumber(byte, 16)) end)
    record[#record + 1] = id .. as_doubles(numbers)
  end
  return table.concat(record)
end

-- Of a limit that is stored for all to follow and one counter with nothing behind its state: `P1:`, whose use counts and the
-- letter of the counter's tag, then for how long it is kept, the configuration, when it is over, and the state.
local function packed_policy(text)
  local scope, letter = match(text, '^$POLICY ([oc]) %d+ %d+ (%u)1 [%d ]+$')
  if not scope or not STATES[letter .. 1] then return end
  local numbers = {}
  for number in string.gmatch(text, ' (%d+)') do numbers[#numbers + 1] = tonumber(number) end
  table.insert(numbers, 2 + CONFIGS[letter .. 1], table.remove(numbers, 2))
  return '$POLICY:' .. scope .. letter .. struct.pack('<' .. string.rep('d', #numbers), unpack(numbers))
end

-- A record as it is stored, from its text.
local function packed(text)
  local policy = packed_policy(text)
  if policy then return policy end
  local tag, letters = sub(text, 1, 2), ''
  local several = tag == '$COMPOSITE' and not find(text, ' $LOG ', 1, true)
  if not (CONFIGS[tag] or several) then return text end
  if find(text, '|[^r]') then return packed_requests(tag, text) end
  if several then
    local number, place = 0, 1
    for letter in string.gmatch(text, ' (%u)') do
      number, place = number + string.byte(letter) % 32 * place, place * 32
    end
    letters = struct.pack('<d', number)
  end
  return tag .. ':' .. letters .. as_doubles(string.gsub(sub(text, 3), '%u1', ''))
end

-- Puts the tags of several counters in the place of their letters, each before its configuration; where their states end.
local function put_tags(words)
  local letters, place, states = tonumber(words[2]), 2, 0
  if not letters then return #words end
  table.remove(words, 2)
  while letters > 0 do
    local tag = string.char(letters % 32 + 64) .. '1'
    table.insert(words, math.min(place, #words + 1), tag)
    letters, place, states = floor(letters / 32), place + 1 + (CONFIGS[tag] or 0), states + (STATES[tag] or 0)
  end
  return place - 1 + states
end

-- Puts what is packed of a stored limit into the order of its text.
local function order_policy(record, words)
  local scope, letter = match(record, '^$POLICY:([oc])(%u)')
  local tag = scope and letter .. 1
  if not STATES[tag] or #words ~= 3 + CONFIGS[tag] + STATES[tag] then return {'$POLICY', '?'} end
  local till = table.remove(words, 3 + CONFIGS[tag])
  return {'$POLICY', scope, words[2], till, tag, unpack(words, 3)}
end

-- The numbers of a record from `from` on, each as a word; what is no number stands there as ?.
local function as_words(record, from, count)
  local words = {}
  for i = 1, count do
    local number = struct.unpack('<d', record, from + 8 * i - 8)
    local is_right = number >= 0 and number <= EXACT and number % 1 == 0
    words[i] = is_right and format('%.0f', number + 0) or '?'
  end
  return words
end

-- The text of a counter's record with requests behind its state.
local function unpacked_requests(tag, record)
  local own, size = CONFIGS[tag] + STATES[tag], 40 + 8 * STATES[tag]
  local from = 4 + 8 * own
  local count = (#record - from - 15) / size
  if count < 1 or count % 1 ~= 0 then return tag .. ' ?' end
  local texts = {tag .. ' ' .. table.concat(as_words(record, 4, own), ' ')}
  texts[2] = 'q ' .. table.concat(as_words(record, from, 2), ' ')
  for at = from + 16, #record, size do
    local id = string.gsub(sub(record, at, at + 15), '.', function(byte) return format('%02x', string.byte(byte)) end)
    texts[#texts + 1] = id .. ' ' .. table.concat(as_words(record, at + 16, 3 + STATES[tag]), ' ')
  end
  return table.concat(texts, '|')
end

-- The text of a record as it is stored.
local function unpacked(record)
  local tag, behind, from = match(record, '^(%u%d+)([:|])()')
  if behind == '|' and STATES[tag] then return unpacked_requests(tag, record) end
  if behind ~= ':' then return record end
  if tag == '$POLICY' then from = 6 end
  local whole = floor((#record - from + 1) / 8)
  local words = as_words(record, from, whole)
  table.insert(words, 1, tag)
  if whole == 0 or from + 8 * whole <= #record then words[#words + 1] = '?' end
  if tag == '$POLICY' then words = order_policy(record, words) end
  local own = STATES[tag] and 1 + CONFIGS[tag] + STATES[tag] or #words
  if tag == '$COMPOSITE' then own = put_tags(words) end
  if own >= #words then return table.concat(words, ' ') end
  return table.concat(words, ' ', 1, own) .. '|r ' .. table.concat(words, ' ', own + 1)
end

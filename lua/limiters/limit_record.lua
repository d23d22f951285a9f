-- The record of any limit, of one part or of several: what the slow path works on.
--
-- A limit of one part has the record that its own script reads: a counter's is
--   F1 10 60000000 1763700000123456 3
-- that is its tag (the kind and the version of the format), its configuration, and its state, as `algorithms` says; with nothing behind it, it is packed. A limit of several is
--   C1 F1 10 60000000 T1 1 10 20 1763700000123456 3 30 1763700000123456
-- that is the tag, each part's tag and configuration, then each part's state, of which every request
-- is charged to every part or to none; then what `requests` describes. It is a string; with a log
-- among its parts the head of a list, whose entries `sliding_log` describes. The state of a log is
--   used last          the total cost of the entries that count for it, and when the latest request was
--                      admitted (us)
local head             -- the limit in ARGV, as a record of it begins
local parts, logs      -- its parts, each with its settled state, and those that are logs
local form             -- of the record: 'string', 'list', or nothing where there is none
local converted        -- whether the record was of another limit
local prior            -- the state as it was stored, of a limit that is one counter and its own record with no more to it
                       -- than the fast path knows, or requests that are remembered
local convert          -- see conversion.lua
local read_reservations, lower_reservations, reservations_behind   -- see reservations.lua
-- Of a call under the limit that is stored with the record, not under the one in ARGV: how long the caller
-- waits for its turn (us); and under `default`, if it has one, the terms on which the limit in ARGV is
-- stored where no limit is.
local follows
local adopted          -- whether the record was stored under no limit that is, and the default counts
local is_off           -- whether the clock is: some part cannot be settled now
local only_asks, sets  -- whether this script writes nothing, and whether it stores the limit in ARGV

-- How many numbers each call carries behind the configuration.
local GIVEN = {}
$for_each_algorithm
GIVEN.$TAG = (GIVEN.$TAG or 0) + 1   -- $each_given
$end

-- Returns what the call gives to a part that is alike but for its capacity, the first number.
local function given_to(tag, like)
  for _, part in ipairs(parts) do
    if part.tag == tag and part.like == like then return part.given end
  end
end

-- The parts of the limit that begins at words[from], what stands behind it, and how its record begins; or nothing,
-- where it cannot be read, and why. In a record nothing is given: the call's parts give it.
local function read_parts(words, from, is_record)
  local read, most, place, names = {}, 1, from, {}
  if words[place] == '$COMPOSITE' then
    most, place = $MAX_LIMITS, place + 1
    names[1] = '$COMPOSITE'
  end
  repeat
    local tag, config = words[place] or '', {}
    local size = CONFIGS[tag]
    if not size then return nil, place, find(tag, '^[L$LETTERS]%d+$') and OTHER_VERSION or OTHER_KIND end
    for i = 1, size do
      config[i] = tonumber(match(words[place + i] or '', '^%d+$'))
      if not config[i] or config[i] < 1 or config[i] > EXACT then return nil, place + i, DAMAGED end
    end
    local count, like, given = GIVEN[tag], nil, nil
    if count then
      like, given = table.concat(words, ' ', place + 2, place + size), {}
      for i = 1, count do
        given[i] = is_record and 0 or tonumber(match(words[place + size + i] or '', '^%d+$'))
        if not given[i] or given[i] > EXACT then return nil, place + size + i, DAMAGED end
      end
      given = is_record and given_to(tag, like) or given
      for i = 1, count do config[size + i] = given[i] end
    end
    local part = (algorithms[tag] or new_log)(unpack(config))
    if not part then return nil, place + 2, DAMAGED end
    part.tag, part.name = tag, table.concat(words, ' ', place, place + size)
    part.like, part.given = like, given
    names[#names + 1], read[#read + 1] = part.name, part
    place = place + 1 + size + (not is_record and count or 0)
  until #read == most or not find(words[place] or '', '^%u')
  if most ~= 1 and #read < 2 then return nil, place, DAMAGED end
  return read, place, table.concat(names, ' ') .. ' '
end

-- The numbers from `from` on, as a record has them.
local function as_text(list, from)
  local numbers = {}
  for i = from, #list do numbers[#numbers + 1] = format('%.0f', list[i]) end
  return table.concat(numbers, ' ')
end

local function logs_of(all)
  local found = {}
  for _, part in ipairs(all) do
    if part.is_log then found[#found + 1] = part end
  end
  return found
end

-- Takes the last argument away where it says to follow the stored limit: as *patience, or with a default as
-- *patience:scope:keep, such as *0:o:60000000.
local function read_follow()
  local patience, default = match(ARGV[#ARGV] or '', '^%*(%d+)(.*)$')
  if not patience then return end
  follows = {patience = tonumber(patience)}
  if default ~= '' then
    local scope, keep = match(default, '^:([oc]):(%d+)$')
    keep = tonumber(keep)
    if not keep or keep < 1 or keep > LONGEST then
      return wrong_argument(#ARGV, '*, a patience in us, and with a default :, o or c, : and up to 2^50 us')
    end
    follows.default = {scope = scope, keep = keep}
  end
  ARGV[#ARGV] = nil
end

-- Reads the limit in ARGV, from `first` on: what stands behind it; or nothing and why it is wrong.
local function read_limit(first)
  local wrong = read_follow()
  if wrong then return nil, wrong end
  local read, behind, begins = read_parts(ARGV, first)
  if not read then return nil, wrong_argument(behind, 'part of a limit, whose tags this script knows') end
  parts, logs, head = read, logs_of(read), begins
  return behind
end

-- Takes the states of a record's parts out of its words, or tells that they cannot be.
local function read_states(words, from, all)
  local place, latest = from, nil
  local function take()
    local number = tonumber(match(words[place] or '', '^%d+$'))
    place, broken = place + 1, broken or not number or number > EXACT
    return number
  end
  for _, part in ipairs(all) do
    if part.is_log then
      part.used = take()
      last = take()
      broken, latest = broken or latest and latest ~= last, last
    else
      part.state = {}
      for i = 1, part.size do part.state[i] = take() end
    end
  end
  return not broken and not words[place]
end

-- How many numbers a request's reply was made from, and an adjustment's.
local function told_numbers(all)
  local most = 0
  for _, part in ipairs(all) do most = most + (part.size or 2) end
  return most, 2 + most + #logs_of(all)
end

-- The parts of a record with their states, and whether they are those of the limit that counts; or nothing
-- and why it cannot be read.
local function read_stored(record)
  local bar = find(record, '|')
  -- Behind the same head stands a state, or another part of a longer limit.
  local theirs = follows and not adopted
  local same = not theirs and sub(record, 1, #head) == head and find(record, '^%d', #head + 1) ~= nil
  local from = same and #head + 1 or 1
  local text, words, stored, place = sub(record, from, bar and bar - 1), {}, parts, 1
  for word in string.gmatch(text, '%S+') do words[#words + 1] = word end
  if not same then
    local status
    stored, place, status = read_parts(words, 1, true)
    if not stored then return nil, {status} end
    if theirs then
      parts, logs, same = stored, logs_of(stored), true
      head = table.concat(words, ' ', 1, place - 1) .. ' '
    end
  end
  local is_list = #logs_of(stored) > 0
  if table.concat(words, ' ') ~= text or is_list ~= (form == 'list') then return nil, {DAMAGED} end
  if not read_states(words, place, stored) then return nil, {DAMAGED} end
  if is_list then
    read_entries(newest, first, ahead)
    if broken or not counts_entries(logs_of(stored)) then return nil, {DAMAGED} end
  end
  if bar then
    local most, adjusted = told_numbers(stored)
    local behind = read_reservations(sub(record, bar), stored)
    local refused = not behind and {DAMAGED} or read_behind(behind, most, adjusted)
    if refused then return nil, refused end
  end
  return stored, same
end

-- Whether any of the parts cannot be settled now.
local function any_is_off(all)
  for _, part in ipairs(all) do
    if part.given and part.is_off(unpack(part.state or {})) then return true end
  end
end

local function settle(all)
  at = max(now, last)
  for _, part in ipairs(all) do
    if part.is_log then log_settle(part) else part.state = {part.settle(unpack(part.state))} end
  end
end

local function used(part)
  if part.is_log then return part.used end
  return counter_used(part)
end

-- The largest cost that every part admits.
local function remaining()
  local least = EXACT
  for _, part in ipairs(parts) do least = math.min(least, part.capacity - used(part)) end
  return max(0, least)
end

-- What a part is asked for.
local function cost_of(at, cost)
  return each and each[at] or cost
end

-- Whether each part admits what it is asked for; a cost by part of nothing fits also where more than all is used.
local function fits(cost)
  if not each then return cost <= remaining() end
  for i, part in ipairs(parts) do
    if each[i] > max(0, part.capacity - used(part)) then return false end
  end
  return true
end

-- What the logs are asked for, which is the same for all.
local function cost_of_logs(cost)
  if not each then return cost end
  for i, part in ipairs(parts) do
    if part.is_log then return each[i] end
  end
  return 0
end

-- Takes the costs by part, if there are any; why they are those of other parts than the limit has, if they are. What is
-- charged moves the time of each part, and of a log only by an entry: so its cost is not zero.
local function take_costs(costs, is_charged)
  each = costs
  if not each then return end
  for i, part in ipairs(parts) do
    if part.is_log and (each[i] ~= cost_of_logs() or is_charged and each[i] == 0) then return {$OTHER_PARTS} end
  end
  if #each ~= #parts then return {$OTHER_PARTS} end
end

local function has_queues()
  for _, part in ipairs(parts) do
    if part.is_queue then return true end
  end
  return false
end

-- When it is the turn of what is charged next: when every queue has drained in which it counts.
local function turn_at()
  local latest = 0
  for i, part in ipairs(parts) do
    if part.is_queue and cost_of(i, 1) > 0 then latest = max(latest, part.fresh_at(unpack(part.state))) end
  end
  return latest
end

local function charge(cost)
  for i, part in ipairs(parts) do
    if not part.is_log then counter_add(part, cost_of(i, cost)) end
  end
  add_entry(logs, cost_of_logs(cost))   -- which is no log's where there is none
end

-- Adds each part's state to the reply.
local function add_states(reply)
  for _, part in ipairs(parts) do
    local state = part.is_log and {part.used, last} or part.state
    for _, number in ipairs(state) do reply[#reply + 1] = number end
  end
end

-- Adds for each log when enough will have expired for `cost`.
local function add_freed_at(reply, cost)
  cost = cost_of_logs(cost)
  for _, log in ipairs(logs) do reply[#reply + 1] = log_freed_at(log, cost) end
end

-- Until when the states of these parts are kept.
local function states_kept_until(all)
  local keep = 0
  for _, part in ipairs(all) do
    if part.is_log then
      -- A stored limit goes as soon as nothing counts any more.
      local fresh = last + (part.used > 0 and part.window or 0)
      keep = max(keep, (all[2] or policy) and fresh or log_kept_until(part))
    else
      keep = max(keep, counter_kept_until(part))
    end
  end
  return keep
end

-- Writes the record. The rest is what `remembered` takes.
local function store(cost, told, letter)
  local behind, keep = remembered(cost, told, letter)
  behind, keep = behind .. reservations_behind(), max(keep, states_kept_until(parts))
  local numbers = {}
  for _, part in ipairs(parts) do
    local state = part.state
    if part.is_log then state = {part.used, last} end
    numbers[#numbers + 1] = as_text(state, 1)
  end
  local record = head .. table.concat(numbers, ' ') .. behind
  if policy then
    keep = max(keep, now + policy.keep)
    record = format('P1 %s %.0f %.0f ', policy.scope, policy.keep, keep) .. record
    -- The key is kept for a little longer, so that the fast path sets its expiry anew but a few times in that time.
    local stretch = floor(policy.keep / 8) + 1
    keep = math.min(EXACT, keep - keep % stretch + stretch)
  end
  if logs[1] then
    store_entries(logs, record, form == 'list', ttl_ms(keep), is_there)
  else
    redis.call('SET', key, packed(record), 'PX', ttl_ms(keep))
  end
end

-- The reply. Of a call under the stored limit, that limit follows: 1 if it is per client, else 0; for how
-- long it is kept; of each part the code of its tag's letter, and its configuration; and how many numbers
-- these are.
local function told(reply)
  if not follows or #reply == 1 then return reply end
  local before = #reply
  reply[#reply + 1] = policy.scope == 'c' and 1 or 0
  reply[#reply + 1] = policy.keep
  for _, part in ipairs(parts) do
    reply[#reply + 1] = string.byte(part.tag)
    for number in string.gmatch(part.name, ' (%d+)') do reply[#reply + 1] = tonumber(number) end
  end
  reply[#reply + 1] = #reply - before
  return reply
end

-- What to reply at once about whose limit counts, if anything: {0, now} where the call is under a stored
-- limit and there is none.
local function other_policy(record)
  if not follows then return policy and not sets and {LIMIT_IS_STORED} end
  adopted = record and not policy
  policy = policy or follows.default
  if not policy then return {0, now} end
end

-- A limit per client is for another key: it is told, and kept.
local function tell_per_client()
  if is_off and not only_asks then return told({CLOCK_OFF, now}) end
  id = nil
  if not only_asks then store() end
  return told({0, now})
end

-- Reads what is stored and settles it, for the limit that `read_limit` has read or the stored one that it
-- follows; or what to reply instead.
local function read_record()
  local record, found, refused = read_any()
  refused = refused or other_policy(record)
  if refused then return refused end
  form = found
  if not record then
    for _, part in ipairs(parts) do part.state, part.used = {}, 0 end
    is_off = any_is_off(parts)
    settle(parts)
  else
    local stored, same = read_stored(record)
    if not stored then return same end
    -- A stored limit is kept no longer than a call can ask for, or its state counts.
    if policy and policy.till and policy.till > max($LATEST_END, states_kept_until(stored)) then return {DAMAGED} end
    local is_fast_path = same and not stored[2] and not policy and not blocked
    -- What was given to settle a state is not at hand later.
    prior = is_fast_path and not stored[1].given and stored[1].state
    is_off = any_is_off(same and stored or parts)
    settle(stored)
    converted = not same
    if converted then convert(stored) else lower_reservations() end
    if broken then return {DAMAGED} end
  end
  if follows and policy.scope == 'c' then return tell_per_client() end
end

-- Runs a script for each of several keys, and writes for all of them or for none. What stands before this part is
-- `local run = {`, and for each script that is used `function(redis, KEYS, ARGV)`, the script, and `end,`; then `}`.
--
-- KEYS     the keys
-- ARGV[1]  two bytes for each key: the number of its script, and of its arguments
-- ARGV[2]  and on: the arguments of each key, as its script takes them
-- Reply    what the script replies for each key; or the error of the first key that has one. The writes of all are
--          carried out, in the order of the keys, if each admits what it is asked for: a script writes then, and
--          where it may also write otherwise or admit without a write, it says so by a second result. If that is `kept`,
--          it admits nothing, and its writes are carried out unless a key is refused.
local KEYS, ARGV, call, unpack = KEYS, ARGV, redis.call, unpack   -- to find a global costs more than to read a local
-- As long as they will be for most calls, since a table that grows costs more than a script's arithmetic.
local replies, writes, count, time = {unpack(KEYS)}, {unpack(KEYS)}, 0, nil
local kept, is_refused = nil, false
-- All keys are at one time: it is asked for once. No script reads a key behind a write to it.
local held = {
  holds_writes = true,
  pcall = redis.pcall,
  error_reply = redis.error_reply,
  call = function(name, ...)
    if name == 'TIME' then
      time = time or call('TIME')
      return time
    end
    if name == 'TYPE' or name == 'LINDEX' or name == 'LLEN' or name == 'LRANGE' then return call(name, ...) end
    count = count + 1
    writes[count] = {name, ...}
  end,
}

local how, byte = ARGV[1], string.byte
local key, words, before, at, is_denied = {''}, {''}, 1, 1, false
for index = 1, #KEYS do
  local script, size = byte(how, 2 * index - 1, 2 * index)
  key[1] = KEYS[index]
  for place = 1, before > size and before or size do words[place] = place <= size and ARGV[at + place] or nil end
  local old = count
  local reply, is_admitted = run[script](held, key, words)
  if is_admitted == nil then
    is_admitted = count > old
    if not is_admitted and type(reply) == 'table' then
      if reply.err then return reply end
      is_refused = is_refused or reply[1] ~= 0
    end
  elseif is_admitted == 'kept' then
    kept, is_admitted = kept or {}, false
    for at = old + 1, count do kept[#kept + 1] = writes[at] end
  end
  is_denied = is_denied or not is_admitted
  replies[index], before, at = reply, size, at + size
end
if not is_denied then
  for index = 1, count do call(unpack(writes[index])) end
elseif kept and not is_refused then
  for index = 1, #kept do call(unpack(kept[index])) end
end
return replies

-- What a script finds around itself in Redis, built once per interpreter on plain Lua 5.1.
--
-- Arguments, all functions of the host:
--   command(...)   runs one command: returns its reply, or nil and an error table
--   sha1hex(text)  the SHA-1 of a string, in hex
--   random()       the next pseudo-random number in [0, 1)
--   seed(n)        starts that sequence anew
-- and the library `struct`.
-- Returns run(script, keys, argv, seconds, microseconds): how often the script asked for the time, which is these two texts, and
-- its reply, an error that it raised being the reply {err = ...}.

local command, sha1hex, random, seed, struct = ...

local error, pcall, select, rawget, setmetatable = error, pcall, select, rawget, setmetatable
local tostring, type = tostring, type
local find, gsub, sub, floor = string.find, string.gsub, string.sub, math.floor

-- Readonly tables. Redis has them in its patched Lua; here an empty table stands in front of the real one.

local READONLY = 'Attempt to modify a readonly table'
local readonly = {}

local function refuse_write()
  error(READONLY, 2)
end

local function protect(front, content)
  readonly[front] = true
  return setmetatable(front, {__index = content, __newindex = refuse_write, __metatable = false})
end

local function guarded(change)
  return function(target, ...)
    if target ~= nil and readonly[target] then
      error(READONLY, 0)
    end
    return change(target, ...)
  end
end

-- The library `redis`.

-- REDIS_VERSION_NUM is 0x70000: the grammar of Lua 5.1 has no hexadecimal numbers, though C Lua reads them.
local redis = {LOG_DEBUG = 0, LOG_VERBOSE = 1, LOG_NOTICE = 2, LOG_WARNING = 3, REDIS_VERSION_NUM = 458752}

-- A script has one time, which is told here: to ask the host takes longer.
local seconds, microseconds, times_asked

local function time()
  times_asked = times_asked + 1
  return {seconds, microseconds}
end

function redis.call(...)
  if (...) == 'TIME' and select('#', ...) == 1 then
    return time()
  end
  local reply, failure = command(...)
  if reply == nil then
    error(failure, 0)
  end
  return reply
end

function redis.pcall(...)
  if (...) == 'TIME' and select('#', ...) == 1 then
    return time()
  end
  local reply, failure = command(...)
  if reply == nil then
    return failure
  end
  return reply
end

local function is_one_string(...)
  return select('#', ...) == 1 and type((...)) == 'string'
end

function redis.error_reply(...)
  if not is_one_string(...) then
    return {err = 'ERR wrong number or type of arguments'}
  end
  local message = gsub(gsub((...), '^%-', ''), '[\r\n]+$', '')
  if not find(message, ' ', 1, true) then
    message = 'ERR ' .. message
  end
  return {err = message}
end

function redis.status_reply(...)
  if not is_one_string(...) then
    return {err = 'ERR wrong number or type of arguments'}
  end
  return {ok = (...)}
end

function redis.sha1hex(...)
  if select('#', ...) ~= 1 then
    error({err = 'ERR wrong number of arguments'}, 0)
  end
  return sha1hex(tostring((...)))
end

-- Of no effect, as far as a script can see.
function redis.log() end
function redis.replicate_commands() return true end

-- What Redis replaces in the standard libraries.

local function plain_failure(succeeded, ...)
  local failure = ...
  if not succeeded and type(failure) == 'table' then
    local message = rawget(failure, 'err')
    if type(message) == 'string' or type(message) == 'number' then
      return false, message
    end
  end
  return succeeded, ...
end

local function redis_pcall(...)
  return plain_failure(pcall(...))
end

local function redis_random(low, high)
  local fraction = random()
  if low == nil then
    return fraction
  end
  if high == nil then
    low, high = 1, low
  end
  if low > high then
    error('bad argument #1 to \'random\' (interval is empty)', 2)
  end
  return floor(fraction * (high - low + 1)) + low
end

-- The globals: the ones that Redis leaves, readonly; reading any other is an error.

local globals = _G
local library = {redis = protect({}, redis), struct = protect({}, struct)}
local math_library = {}
for name, value in pairs(math) do
  math_library[name] = value
end
math_library.random, math_library.randomseed = redis_random, seed
library.math = protect({}, math_library)
for _, name in ipairs({'string', 'table', 'coroutine'}) do
  library[name] = protect({}, globals[name])
end
for _, name in ipairs({
  '_VERSION', 'assert', 'collectgarbage', 'error', 'gcinfo', 'getmetatable', 'ipairs', 'load', 'loadstring', 'next',
  'pairs', 'rawequal', 'rawget', 'select', 'tonumber', 'tostring', 'type', 'unpack', 'xpcall',
}) do
  library[name] = globals[name]
end
library._G = globals
library.pcall = redis_pcall
library.rawset = guarded(rawset)
library.setmetatable = guarded(setmetatable)

local string_metatable = getmetatable('')
string_metatable.__index = library.string
string_metatable.__metatable = protect({}, {__index = library.string})

setmetatable(library, {
  __index = function(_, name)
    error('Script attempted to access nonexistent global variable \'' .. tostring(name) .. '\'', 2)
  end,
})
for name in pairs(globals) do
  globals[name] = nil
end
protect(globals, library)

local function reply_of(succeeded, value)
  if succeeded then
    return value
  end
  if type(value) ~= 'table' then
    return {err = 'ERR ' .. tostring(value)}
  end
  if type(rawget(value, 'err')) ~= 'string' then
    return {err = 'ERR unknown error'}
  end
  return value
end

return function(script, keys, argv, now_seconds, now_microseconds)
  library.KEYS, library.ARGV = keys, argv
  seconds, microseconds = now_seconds, now_microseconds
  times_asked = 0
  local reply = reply_of(pcall(script))
  return times_asked, reply
end

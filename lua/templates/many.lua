-- Runs one fast script for each of several keys, in their order, each as if it were called by itself. What stands
-- before this part is `local function run(redis, KEYS, ARGV)`, the script, and `end`.
--
-- KEYS     the keys
-- ARGV     the numbers of each key and, where the caller's time decides, that time: as its script takes them
-- Reply    what the script replies for each key or, in the place of an error, a list of its text alone. A key's
--          error changes nothing of that key, and takes nothing from the others.

-- All keys are at one time: it is asked for once.
local call, time = redis.call, nil
local once = setmetatable({
  call = function(name, ...)
    if name ~= 'TIME' then return call(name, ...) end
    time = time or call('TIME')
    return time
  end,
}, {__index = redis})

local replies = {}
for index = 1, #KEYS do
  -- Anew for each key, since a script may take its last argument away.
  local done, reply = pcall(run, once, {KEYS[index]}, {ARGV[index], ARGV[#KEYS + 1]})
  if not done then reply = {err = 'ERR ' .. tostring(reply)} end
  if type(reply) == 'table' and reply.err then reply = {(string.gsub(reply.err, '^%-', ''))} end
  replies[index] = reply
end
return replies

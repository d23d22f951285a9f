-- Runs one script for each of several keys, in their order, each as if it were called by itself. What stands
-- before this part is `local function run(redis, KEYS, ARGV)`, the script, and `end`.
--
-- KEYS     the keys
-- ARGV[1]  how many arguments follow that are every key's; or nothing, on the fast path, and then follow the numbers
--          of each key and, where the caller's time decides, that time
-- ARGV[..] these, and where they are not all that there are, one more for each key: numbers that stand behind
--          them, each with how often, as 1x3,5x1
-- Reply    what the script replies for each key or, in the place of an error, a list of its text alone. A key's
--          error changes nothing of that key, and takes nothing from the others.
local shared = tonumber(ARGV[1])
local own = {}

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
  local numbers, count = shared and ARGV[shared + 1 + index], shared
  -- Anew for each key, since a script may take its last argument away.
  for at = 1, shared or 0 do own[at] = ARGV[at + 1] end
  if not shared then own = {ARGV[1 + index], ARGV[#KEYS + 2]} end
  if numbers then
    for number, times in string.gmatch(numbers, '(%d+)x(%d+)') do
      for _ = 1, times do
        count = count + 1
        own[count] = number
      end
    end
    -- What is left of a key before.
    for at = #own, count + 1, -1 do own[at] = nil end
  end
  local done, reply = pcall(run, once, {KEYS[index]}, own)
  if not done then reply = {err = 'ERR ' .. tostring(reply)} end
  if type(reply) == 'table' and reply.err then reply = {(string.gsub(reply.err, '^%-', ''))} end
  replies[index] = reply
end
return replies

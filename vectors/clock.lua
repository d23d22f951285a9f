-- What a runner puts in front of a script, so that a server on its own clock does what a vector says.
--
-- The vector's time is one more ARGV, which is taken away before the script sees it. The script's `redis` is the
-- server's, but for this: TIME is the vector's time, and PX and PEXPIRE count from the year 2100 instead of now, as
-- PXAT and PEXPIREAT. So no key is dropped while the runner looks at it, however short its record is kept.
local now_us, start_ms = tonumber(table.remove(ARGV)), 4102444800000
local redis = setmetatable({}, {__index = redis})

local function on_clock(call)
  return function(name, ...)
    local words = {...}
    local function expire_from_start(at)
      words[at] = string.format('%.0f', start_ms + words[at])
    end
    if name == 'TIME' then
      return {string.format('%.0f', math.floor(now_us / 1000000)), string.format('%.0f', now_us % 1000000)}
    elseif name == 'PEXPIRE' then
      name = 'PEXPIREAT'
      expire_from_start(2)
    elseif name == 'SET' then
      for at = 3, #words do
        if words[at] == 'PX' then
          words[at] = 'PXAT'
          expire_from_start(at + 1)
        end
      end
    end
    return call(name, unpack(words))
  end
end

redis.call, redis.pcall = on_clock(redis.call), on_clock(redis.pcall)

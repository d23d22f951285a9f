-- GCRA as it is commonly written: one theoretical arrival time (TAT) in seconds, a floating point number. Its errors are
-- rounded away as it stands, for rates and times that are far above them; the suite takes the rounding out.
--
-- KEYS[1]  the TAT
-- ARGV     burst, rate, period (s), (unused), cost, 1 to charge it
-- Reply    {admitted (0 or 1), remaining}
local cost = tonumber(ARGV[5])
local emission_interval = ARGV[3] / ARGV[2]
local burst_offset = emission_interval * ARGV[1]
-- Seconds since 2017, so that more digits are left for the fraction.
local time = redis.call('TIME')
local now = (time[1] - 1483228800) + time[2] / 1000000
local tat = math.max(tonumber(redis.call('GET', KEYS[1]) or now), now)

local function remaining(new_tat)
  local left = (now - (new_tat - burst_offset)) / emission_interval
  return math.floor(left + 0.001)
end

local new_tat = tat + emission_interval * cost
if remaining(new_tat) < 0 then return {0, math.max(0, remaining(tat))} end
if ARGV[6] == '1' then
  redis.call('SET', KEYS[1], string.format('%.17g', new_tat), 'EX', math.ceil(new_tat - now))
  tat = new_tat
end
return {1, remaining(tat)}

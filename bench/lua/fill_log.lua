-- Stores a sliding log of a day as its script does: of ARGV[2] entries of 1 to ARGV[3], one each millisecond, of which
-- the first is ARGV[4] microseconds old, under the limit ARGV[1]. ARGV[5] and ARGV[6] are how many of them stand beside
-- the chunks and in one, at most.
local limit, entries, most, ago = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local newest, chunk = tonumber(ARGV[5]), tonumber(ARGV[6])
local now = redis.call('TIME')
local first = now[1] * 1000000 + now[2] - ago
local in_chunks = math.floor((entries - 1) / newest) * newest
local index, used, total, pieces = {}, 0, 0, {}
redis.call('DEL', KEYS[1])
redis.call('RPUSH', KEYS[1], '', '')
for at = 0, entries - 1 do
  local time, cost = first + 1000 * at, 1 + at * 7919 % most
  used, total = used + cost, total + cost
  pieces[#pieces + 1] = struct.pack('<dd', time, at < in_chunks and total or cost)
  if at < in_chunks and (#pieces == chunk or at == in_chunks - 1) then
    index[#index + 1] = struct.pack('<dd', time, used)
    redis.call('RPUSH', KEYS[1], table.concat(pieces))
    pieces, total = {}, 0
  end
end
redis.call('LSET', KEYS[1], '1', table.concat(index))
local head = struct.pack('<ddddddd', limit, 86400000000, used, first + 1000 * (entries - 1), 0, first, 256 + #pieces)
redis.call('LSET', KEYS[1], '0', 'L1:' .. head)
redis.call('RPUSH', KEYS[1], unpack(pieces))

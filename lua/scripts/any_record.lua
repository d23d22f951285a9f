-- Reads the record of any limiter: a string, or a list whose first element is the head.

-- The string or the head, and which form it has ('string' or 'list'); nothing where there is none; or
-- nothing, nothing and why it is not the record of a limiter.
local function read_any()
  local form = redis.call('TYPE', key).ok
  if form == 'none' then return end
  local record
  if form == 'string' then record = redis.call('GET', key) end
  if form == 'list' then record = redis.call('LINDEX', key, '0') end
  local version = match(record or '', '^[FSTIQLC](%d+) ')
  if not version then return nil, nil, {OTHER_KIND} end
  if version ~= '1' then return nil, nil, {OTHER_VERSION} end
  return record, form
end

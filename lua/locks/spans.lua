-- The first argument from `first` to `last` that is not a time to last: 1 to 2^50 us.
local function not_span(first, last)
  for at = first, last do
    if not_whole(at, at) or tonumber(ARGV[at]) < 1 or tonumber(ARGV[at]) > LONGEST then return at end
  end
end

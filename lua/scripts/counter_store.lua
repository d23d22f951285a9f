-- Writes the state of a counter: it is kept until `keep` (us), and was until `kept`, or -1. It stands at `place` of the
-- record, behind its tag, `kind`, and the configuration, which the call begins with.
if keep == kept then
  -- The configuration is the same, and so is the expiry.
  redis.call('SETRANGE', key, place, state)
else
  redis.call('SET', key, kind .. string.sub(call, 1, place - 3) .. state, 'PX', math.ceil((keep - now) / 1000) + skew)
end
return reply

-- Writes the record where it was changed: it is kept until `keep` (us), and was until `kept`, or -1.
if changed then
  if keep == kept then
    redis.call('SET', key, record, 'KEEPTTL')
  else
    redis.call('SET', key, record, 'PX', math.ceil((keep - now) / 1000) + skew)
  end
end
return reply

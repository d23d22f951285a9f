-- A key of another type is none of the plain scripts' records.
local record = redis.pcall('GET', key)

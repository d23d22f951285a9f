-- The 16 bytes of an id of 32 hex digits.
local function bytes_of(id)
  local part = function(at) return tonumber(sub(id, at, at + 7), 16) end
  return struct.pack('>I4I4I4I4', part(1), part(9), part(17), part(25))
end

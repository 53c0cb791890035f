-- read: the next batches of latencies.
-- KEYS  stream
-- ARGV  last entry read ('' for none), age in ms of the first one wanted, how many
-- Returns the time in us, then the id, the path and the batch of each entry.
local time = redis.call('TIME')
local us = time[1] * 1000000 + time[2]
local from = '(' .. ARGV[1]
if ARGV[1] == '' then
  from = string.format('%.0f', math.floor(us / 1000) - ARGV[2])
end
local reply = {us}
for _, entry in ipairs(redis.call('XRANGE', KEYS[1], from, '+', 'COUNT', ARGV[3])) do
  local fields = entry[2]
  reply[#reply + 1] = entry[1]
  reply[#reply + 1] = fields[2]
  reply[#reply + 1] = fields[4] or ''
end
return reply

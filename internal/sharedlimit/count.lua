-- count: who has asked for a lease in the last two seconds. It writes nothing.
-- KEYS  what is kept, as in lease
-- Returns the time in us, the number of nodes, and the lowest of their ceilings
-- in thousandths of a call a second.
local time = redis.call('TIME')
local us = time[1] * 1000000 + time[2]
local nodes, lowest = 0, 0
local stored = redis.call('HGETALL', KEYS[1])
for i = 1, #stored, 2 do
  local ceiling, seen = string.match(stored[i + 1], '^%d+ %d+ (%d+) %d+ %d+ (%d+)$')
  if string.match(stored[i], '^node ') and ceiling and math.abs(us / 1000 - seen) <= 2000 then
    nodes = nodes + 1
    if nodes == 1 or tonumber(ceiling) < lowest then lowest = tonumber(ceiling) end
  end
end
return {us, nodes, lowest}

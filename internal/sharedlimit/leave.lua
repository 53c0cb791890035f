-- leave: a node goes, and returns what it has not spent.
-- KEYS  what is kept, as in lease
-- ARGV  node, then pairs of a window's number and calls
redis.call('HDEL', KEYS[1], 'node ' .. ARGV[1])
for i = 2, #ARGV, 2 do
  local window = 'window ' .. ARGV[i]
  local before, within = string.match(redis.call('HGET', KEYS[1], window) or '', '^(%d+) (%d+)$')
  if before then
    redis.call('HSET', KEYS[1], window, math.max(before - ARGV[i + 1], 0) .. ' ' .. within)
  end
end
return {}

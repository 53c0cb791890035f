-- leave: a node goes, and returns what it has not spent.
-- KEYS  nodes, windows
-- ARGV  node, then pairs of a window's number and calls
redis.call('HDEL', KEYS[1], ARGV[1])
for i = 2, #ARGV, 2 do
  local before, within = string.match(redis.call('HGET', KEYS[2], ARGV[i]) or '', '^(%d+) (%d+)$')
  if before then
    redis.call('HSET', KEYS[2], ARGV[i], math.max(before - ARGV[i + 1], 0) .. ' ' .. within)
  end
end
return {}

-- add: a batch of latencies of each path.
-- KEYS  stream
-- ARGV  entries to keep, time to live in ms, then pairs of a path and its batch
for i = 3, #ARGV, 2 do
  redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[1], '*', 'path', ARGV[i], 'batch', ARGV[i + 1])
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return {}

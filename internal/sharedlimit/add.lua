-- add: one batch of latencies for each path.
-- KEYS  streams
-- ARGV  entries to keep, time to live in ms, then a batch for each stream
for i, key in ipairs(KEYS) do
  redis.call('XADD', key, 'MAXLEN', '~', ARGV[1], '*', 'batch', ARGV[i + 2])
  redis.call('PEXPIRE', key, ARGV[2])
end
return {}

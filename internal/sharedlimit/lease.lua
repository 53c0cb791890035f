-- lease: hands out calls of the window that is and of the one that comes next.
-- KEYS  what is kept: a field for each node and for each window
-- ARGV  node, class, demand in thousandths of a call a window, calls wanted in
--       this window, ceiling in thousandths of a call a second, first credit,
--       length of a window in ms
-- Returns the time and the beginning of this window in us, the calls of this
-- window, those of the next, the number of nodes. All numbers are whole, so that
-- none of them depends on how a machine rounds.
local time = redis.call('TIME')
local us = time[1] * 1000000 + time[2]
local ms = math.floor(us / 1000)
local length = tonumber(ARGV[7])
local current = math.floor(ms / length)
local ceiling = tonumber(ARGV[5])
local me = {name = ARGV[1], credit = tonumber(ARGV[6]), last = 0}
local nodes = {}

-- The first write passes on an error as it is: older servers would wrap it, and a
-- connection to a replica is only given up for one that begins with READONLY.
local alive = redis.pcall('PEXPIRE', KEYS[1], 10000)
if type(alive) == 'table' and alive.err then return alive end
-- Of each window: calls given before it began, and those given in it.
local before, within = {[current] = 0, [current + 1] = 0}, 0
local stored = redis.call('HGETALL', KEYS[1])
for i = 1, #stored, 2 do
  local kind, name = string.match(stored[i], '^(%l+) (.*)$')
  local f = {}
  for v in string.gmatch(stored[i + 1], '%d+') do f[#f + 1] = tonumber(v) end
  local kept = false
  if kind == 'node' and #f == 6 then
    local n = {name = name, class = f[1], demand = f[2], ceiling = f[3], credit = f[4], last = f[5], seen = f[6]}
    kept = n.class >= 1 and n.class <= 3 and math.abs(ms - n.seen) <= 2000
    if kept and name == me.name then
      me = n
    elseif kept then
      nodes[#nodes + 1] = n
      ceiling = math.min(ceiling, n.ceiling)
    end
  elseif kind == 'window' and #f == 2 and before[tonumber(name)] then
    kept = true
    before[tonumber(name)] = f[1]
    if tonumber(name) == current then within = f[2] end
  end
  if not kept then redis.call('HDEL', KEYS[1], stored[i]) end
end
me.class, me.demand, me.ceiling, me.seen = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[5]), ms
nodes[#nodes + 1] = me

-- The classes' parts of a window, then this node's part of its class.
local quota = math.floor(ceiling * length / 1000)
local wants, parts, rest = {0, 0, 0}, {}, quota
for _, n in ipairs(nodes) do wants[n.class] = wants[n.class] + n.demand end
for class, kept in ipairs({0, 100, 50}) do
  parts[class] = math.min(wants[class], math.floor(quota * kept / 1000))
  rest = rest - parts[class]
end
for class = 1, 3 do
  local more = math.min(wants[class] - parts[class], rest)
  parts[class], rest = parts[class] + more, rest - more
end
local peers = {}
for _, n in ipairs(nodes) do
  if n.class == me.class then peers[#peers + 1] = n end
end
table.sort(peers, function(a, b)
  return a.demand < b.demand or (a.demand == b.demand and a.name < b.name)
end)
local pot, share = parts[me.class], 0
for i, n in ipairs(peers) do
  local s = math.min(n.demand, math.floor(pot / (#peers - i + 1)))
  pot = pot - s
  if n == me then share = s end
end

local function budget(window)
  local r = window % 1000
  return math.floor((r + 1) * quota / 1000) - math.floor(r * quota / 1000)
end
-- Of a window that has begun, no more than belongs to what is left of it.
local left = (current + 1) * length * 1000 - us
local free = math.ceil((budget(current) - before[current]) * left / (length * 1000)) - within
local now = math.max(math.min(free, tonumber(ARGV[4])), 0)
local next = 0
if me.last ~= current + 1 then
  local due = share + me.credit
  next = math.min(math.floor(due / 1000), math.ceil(me.demand / 1000), budget(current + 1) - before[current + 1])
  next = math.max(next, 0)
  me.credit, me.last = math.min(due - next * 1000, 1000), current + 1
end

local text = string.format('%.0f %.0f %.0f %.0f %.0f %.0f', me.class, me.demand, me.ceiling, me.credit, me.last, me.seen)
redis.call('HSET', KEYS[1], 'node ' .. me.name, text)
redis.call('HSET', KEYS[1], string.format('window %.0f', current), before[current] .. ' ' .. within + now)
redis.call('HSET', KEYS[1], string.format('window %.0f', current + 1), before[current + 1] + next .. ' 0')
redis.call('PEXPIRE', KEYS[1], 10000)
return {us, current * length * 1000, now, next, #nodes}

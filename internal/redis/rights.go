package redis

import (
	"context"
	"errors"
	"slices"
	"strings"

	goredis "github.com/redis/go-redis/v9"
)

// rightsScript tries each command of the program's scripts and returns a name and
// an error in turn, of those that failed. They all go to one key that expires,
// which is a string: a hash's command that gets as far as that error is allowed,
// and leaves nothing. Without SET and PEXPIRE nothing would make it expire.
// KEYS: the probe's. ARGV: its time to live in ms, a channel.
const rightsScript = `
local failed = {}
local function try(name, ...)
  local reply = redis.pcall(name, ...)
  if type(reply) == 'table' and reply.err then
    failed[#failed + 1] = name
    failed[#failed + 1] = reply.err
    return false
  end
  return true
end
try('TIME')
try('GET', KEYS[1])
try('PUBLISH', ARGV[2], '')
local set = try('SET', KEYS[1], 1, 'PX', ARGV[1])
local ends = try('PEXPIRE', KEYS[1], ARGV[1])
try('HGET', KEYS[1], 'a')
try('HGETALL', KEYS[1])
try('HDEL', KEYS[1], 'a')
try('XRANGE', KEYS[1], '-', '+', 'COUNT', 1)
if set or ends then
  try('HSET', KEYS[1], 'a', 1)
  try('XADD', KEYS[1], 'MAXLEN', '~', 1, '*', 'a', 1)
  if ends then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
end
return failed
`

// denied tries what the program does, as it does it, and returns the rights that
// lack for it, in words of ACL SETUSER: +get, ~trafficup:*, &trafficup:*.
func (c *Client) denied(ctx context.Context) (lacks []string) {
	lacks = c.deniedScripts(ctx, c.conn)
	add := func(right string, try func(context.Context) error) {
		c.quietly(ctx, func(ctx context.Context) error {
			err := try(ctx)
			if isDenial(err) {
				lacks = append(lacks, lacking(right, err))
			}
			return err
		})
	}
	add("+subscribe", func(ctx context.Context) error {
		sub := c.conn.Subscribe(ctx, c.Key("breakers"))
		_, err := sub.ReceiveTimeout(ctx, c.timeout)
		return errors.Join(err, sub.Close())
	})
	add("+ping", func(ctx context.Context) error { return c.conn.Ping(ctx).Err() })
	add("+info", func(ctx context.Context) error {
		conn, err := c.owner(ctx)
		if err != nil {
			return err
		}
		return conn.Info(ctx).Err()
	})
	if cluster, ok := c.conn.(*goredis.ClusterClient); ok {
		add("+cluster|info", func(ctx context.Context) error { return cluster.ClusterInfo(ctx).Err() })
		add("+asking", func(ctx context.Context) error { // for the next command of a connection alone
			node, err := cluster.MasterForKey(ctx, c.Key("probe"))
			if err != nil {
				return err
			}
			return node.Do(ctx, "ASKING").Err()
		})
	}
	slices.Sort(lacks)
	return slices.Compact(lacks)
}

// deniedScripts is what denied finds about scripts on one server, which may be a
// replica: whether a user may write is judged before whether the server can.
func (c *Client) deniedScripts(ctx context.Context, conn goredis.Scripter) (lacks []string) {
	keys, args := []string{c.Key("probe")}, []any{probeTTL.Milliseconds(), c.Key("breakers")}
	note := func(right string, err error) {
		if isDenial(err) {
			lacks = append(lacks, lacking(right, err))
		}
	}
	c.quietly(ctx, func(ctx context.Context) error {
		reply, err := conn.Eval(ctx, rightsScript, keys, args...).StringSlice()
		note("+eval", err)
		for pair := range slices.Chunk(reply, 2) {
			note("+"+strings.ToLower(pair[0]), errors.New(pair[1]))
		}
		return err
	})
	c.quietly(ctx, func(ctx context.Context) error {
		err := conn.EvalSha(ctx, goredis.NewScript(rightsScript).Hash(), keys, args...).Err()
		note("+evalsha", err)
		return err
	})
	// Rights may be for the keys of some features only.
	for _, key := range []string{c.Key("breaker", "primary"), c.Key("limit"), c.Key("latency"), c.UplinkKey("site")} {
		c.quietly(ctx, func(ctx context.Context) error {
			err := conn.Eval(ctx, "return {}", []string{key}).Err()
			note("+eval", err)
			return err
		})
	}
	return lacks
}

// isDenial tells that a server denied a command, a key or a channel, or has been
// made to hide it.
func isDenial(err error) bool {
	if err == nil {
		return false
	}
	e := explainReply(err.Error(), err)
	return e.denial() || strings.Contains(strings.ToLower(err.Error()), "unknown redis command")
}

// lacking is the right to what was denied: that of the command, unless the error
// speaks of the key or the channel.
func lacking(right string, err error) string {
	switch text := err.Error(); {
	case strings.Contains(text, "channel"):
		return "&trafficup:*"
	case strings.Contains(text, "the keys"):
		return "~trafficup:*"
	}
	return right
}

package redis

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// Info is what Redis tells of itself. What it does not tell, or does not let this
// user ask, is zero.
type Info struct {
	RoundTrip time.Duration // of one script that writes
	Clock     Clock
	Version   string
	Role      string   // master, unless the address leads to another
	Memory    int64    // bytes in use
	MaxMemory int64    // bytes; zero is without a bound, too
	Policy    string   // what is done when memory is full: noeviction, or how keys are chosen that go
	Nodes     int      // that the cluster knows
	Sentinels int      // that know the master
	Denied    []string // rights that the program uses and this user lacks, in words of ACL SETUSER
	Peers     []Peer   // the sentinels that are configured, then the replicas that they name
}

// Inspect looks at Redis for people, with fewer than twenty calls of [Timeout] at most. The
// error is that of [Client.Check]; with it the rest may be missing.
func (c *Client) Inspect(ctx context.Context) (Info, error) {
	_ = c.Check(ctx) // connects, which is no part of a round trip
	var info Info
	begin := time.Now()
	err := c.Check(ctx)
	if err == nil {
		info.RoundTrip = time.Since(begin)
	}
	info.Clock, _ = c.Clock() // or it stays zero
	c.quietly(ctx, func(ctx context.Context) error {
		conn, err := c.owner(ctx)
		if err != nil {
			return err
		}
		text, err := conn.Info(ctx).Result()
		info.read(text)
		return err
	})
	if conn, cluster := c.conn.(*goredis.ClusterClient); cluster {
		c.quietly(ctx, func(ctx context.Context) error {
			text, err := conn.ClusterInfo(ctx).Result()
			info.Nodes, _ = strconv.Atoi(fields(text)["cluster_known_nodes"]) // or it stays zero
			return err
		})
	}
	if c.cfg.Sentinel.Master != "" {
		info.Sentinels, info.Peers = c.peers(ctx)
	}
	e, refused := errors.AsType[*Error](err)
	if err == nil || refused && e.denial() {
		info.Denied = c.denied(ctx)
	}
	if refused && goredis.IsAuthError(err) && c.cfg.URL != "" && c.isSentinel(ctx) {
		err = explainReply("ERR unknown command 'evalsha'", e.Err) // as it answers with its login
	}
	return info, err
}

// isSentinel tells whether the address is that of a sentinel, which may answer
// without a login, as a user of the servers is unknown to it.
func (c *Client) isSentinel(ctx context.Context) (is bool) {
	opts := c.cfg.options()
	if readURL(c.cfg.URL, opts) != nil {
		return false
	}
	opts.Username, opts.Password, opts.DB = "", "", 0
	conn := goredis.NewClient(opts.Simple())
	defer func() { _ = conn.Close() }() // nothing was written
	c.quietly(ctx, func(ctx context.Context) error {
		text, err := conn.Info(ctx, "server").Result()
		is = fields(text)["redis_mode"] == "sentinel"
		return err
	})
	return is
}

// quietly makes a call whose failure is no trouble, as a user need not be allowed
// it.
func (c *Client) quietly(ctx context.Context, fn func(context.Context) error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	_ = fn(ctx)
}

// owner is the connection to the node that holds the keys of this API.
func (c *Client) owner(ctx context.Context) (goredis.Cmdable, error) {
	if cluster, ok := c.conn.(*goredis.ClusterClient); ok {
		return cluster.MasterForKey(ctx, c.Key("probe"))
	}
	return c.conn, nil
}

func (i *Info) read(text string) {
	f := fields(text)
	number := func(name string) int64 {
		n, _ := strconv.ParseInt(f[name], 10, 64) // or it stays zero
		return n
	}
	i.Version, i.Role, i.Policy = f["redis_version"], f["role"], f["maxmemory_policy"]
	i.Memory, i.MaxMemory = number("used_memory"), number("maxmemory")
}

// fields reads lines of the form name:value.
func fields(text string) map[string]string {
	f := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			f[name] = value
		}
	}
	return f
}

package redis

import (
	"context"
	"net"
	"slices"
	"strconv"
	"sync"

	goredis "github.com/redis/go-redis/v9"
)

// Peer is a server that is needed when another dies: a sentinel, or a replica of
// the master.
type Peer struct {
	Addr    string
	Replica bool     // or a sentinel
	Denied  []string // as in Info; of a sentinel the commands that would tell more
	Err     error    // an [*Error]; nil when it can be used
}

// peers looks at every sentinel that is configured and at the replicas that they
// name, all at once. known is how many sentinels know the master.
func (c *Client) peers(ctx context.Context) (known int, all []Peer) {
	addrs := c.cfg.Sentinel.Addrs
	all = make([]Peer, len(addrs))
	others, replicas := make([]int, len(addrs)), make([][]string, len(addrs))
	atOnce(len(addrs), func(n int) {
		c.quietly(ctx, func(ctx context.Context) error {
			all[n], others[n], replicas[n] = c.cfg.askSentinel(ctx, addrs[n])
			return all[n].Err
		})
	})
	for n := range others {
		known = max(known, others[n])
	}
	named := slices.Concat(replicas...)
	slices.Sort(named)
	named = slices.Compact(named)
	tried := make([]Peer, len(named))
	atOnce(len(named), func(n int) { tried[n] = c.tryReplica(ctx, named[n]) })
	return known, append(all, tried...)
}

func atOnce(n int, do func(int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { do(i) })
	}
	wg.Wait()
}

// askSentinel asks one what a run asks, and how many know the master with it and
// which replicas there are, which it need not tell.
func (cfg Config) askSentinel(ctx context.Context, addr string) (p Peer, known int, replicas []string) {
	p.Addr = addr
	cfg.Sentinel.Addrs = []string{addr} // for the hint
	bound := cfg.bound()
	c := goredis.NewSentinelClient(&goredis.Options{
		Addr: addr, Username: cfg.Sentinel.Username, Password: cfg.Sentinel.Password.Reveal(), TLSConfig: cfg.TLS,
		ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1, DisableIdentity: true, Protocol: 2,
		DialTimeout: bound, ReadTimeout: bound, WriteTimeout: bound,
	})
	defer func() { _ = c.Close() }() // nothing was written
	name := cfg.Sentinel.Master
	if err := c.GetMasterAddrByName(ctx, name).Err(); err != nil {
		p.Err = cfg.explainSentinel(err)
		return p, 0, nil
	}
	master, err := c.Master(ctx, name).Result()
	if n, bad := strconv.Atoi(master["num-other-sentinels"]); bad == nil {
		known = n + 1
	}
	if isDenial(err) {
		p.Denied = append(p.Denied, "+sentinel|master")
	}
	list, err := c.Replicas(ctx, name).Result()
	if isDenial(err) {
		p.Denied = append(p.Denied, "+sentinel|replicas")
	}
	for _, r := range list {
		replicas = append(replicas, net.JoinHostPort(r["ip"], r["port"]))
	}
	return p, known, replicas
}

// tryReplica logs in at a replica, which may be the master tomorrow, and looks at
// what the user may do there.
func (c *Client) tryReplica(ctx context.Context, addr string) Peer {
	opts := c.cfg.options()
	opts.Addrs = []string{addr}
	conn := goredis.NewClient(opts.Simple())
	defer func() { _ = conn.Close() }() // nothing was written
	p := Peer{Addr: addr, Replica: true}
	c.quietly(ctx, func(ctx context.Context) error {
		err := conn.Eval(ctx, "return {}", nil).Err()
		if err != nil && !isDenial(err) {
			at := Config{URL: "redis://" + addr, TLS: c.cfg.TLS}
			p.Err = at.explain(err)
		}
		return err
	})
	if p.Err == nil {
		p.Denied = c.deniedScripts(ctx, conn)
	}
	return p
}

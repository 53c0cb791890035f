package redis_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"trafficup/internal/breaker"
	"trafficup/internal/redis"
)

// shares waits until two clients see each other's changes.
func shares(t *testing.T, a, b *redis.Breakers) time.Duration {
	t.Helper()
	return wait(t, "both to share again", func() bool {
		_, err := a.Update(t.Context(), "shared", fail)
		one, err2 := a.Load(t.Context(), "shared")
		other, err3 := b.Load(t.Context(), "shared")
		return errors.Join(err, err2, err3) == nil && one == other
	})
}

// whileAway calls a until stop says so, and tells the longest call. The breaker
// has to count on meanwhile.
func whileAway(t *testing.T, a *redis.Breakers, stop func() bool) {
	t.Helper()
	var worst time.Duration
	wait(t, "the failover", func() bool {
		begin := time.Now()
		if got, _ := a.Update(t.Context(), "primary", fail); got.Failures == 0 {
			t.Errorf("%+v", got)
		}
		worst = max(worst, time.Since(begin))
		return stop()
	})
	t.Logf("longest call meanwhile %s", worst)
	if worst > redis.Timeout+slack {
		t.Errorf("a call took %s", worst)
	}
}

func sentinels(t *testing.T, master *server) (addrs []string, servers []*server) {
	for range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s := &server{addr: l.Addr().String(), dir: t.TempDir()}
		_, s.port, _ = net.SplitHostPort(s.addr)
		_ = l.Close()
		conf := filepath.Join(s.dir, "sentinel.conf")
		text := fmt.Sprintf("sentinel monitor night 127.0.0.1 %s 2\nsentinel down-after-milliseconds night 500\nsentinel failover-timeout night 3000\n", master.port)
		if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s.conf = conf
		s.run(t, "--sentinel")
		addrs, servers = append(addrs, s.addr), append(servers, s)
	}
	return addrs, servers
}

func TestSentinels(t *testing.T) {
	t.Parallel()
	master := start(t)
	replica := start(t, "--replicaof", "127.0.0.1 "+master.port)
	addrs, watchers := sentinels(t, master)
	wait(t, "the sentinels to know all", func() bool {
		for _, w := range watchers {
			info := w.admin(t).Info(t.Context(), "sentinel").Val()
			if !strings.Contains(info, "slaves=1,sentinels=3") {
				return false
			}
		}
		return strings.Contains(replica.admin(t).Info(t.Context(), "replication").Val(), "master_link_status:up")
	})
	cfg := redis.Config{API: "test", Sentinel: redis.Sentinel{Master: "night", Addrs: addrs}}
	t.Run("suite", func(t *testing.T) { suite(t, cfg) })

	a, b := open(t, cfg).Breakers(openMax, nil), open(t, cfg).Breakers(openMax, nil)
	shares(t, a, b)
	watchers[0].signal(t, syscall.SIGSTOP) // the first, as all clients know it
	for range 20 {
		c := open(t, cfg)
		if d := wait(t, "a connection", func() bool { return c.Check(t.Context()) == nil }); d > time.Second {
			t.Errorf("connected after %s with one sentinel of three stopped", d)
		}
	}
	master.signal(t, syscall.SIGSTOP)
	whileAway(t, a, func() bool {
		return strings.Contains(replica.admin(t).Info(t.Context(), "replication").Val(), "role:master")
	})
	t.Logf("shared again %s after the failover", shares(t, a, b))
	master.signal(t, syscall.SIGCONT)
	shares(t, a, b)

	bad := cfg
	bad.Sentinel.Master = "day"
	if err := open(t, bad).Check(t.Context()); !errors.Is(err, redis.ErrMisconfigured) {
		t.Errorf("of another master: %v", err)
	}
}

// cluster starts three masters with a replica each.
func cluster(t *testing.T) (addrs []string, servers map[string]*server) {
	servers = make(map[string]*server)
	args := []string{"--cluster", "create"}
	for len(servers) < 6 {
		// The bus has the port and 10000 more, below those that are given away.
		n := 10000 + rand.IntN(12000)
		s := &server{port: strconv.Itoa(n), addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(n)), dir: t.TempDir()}
		l, err := net.Listen("tcp", s.addr)
		if err != nil {
			continue
		}
		_ = l.Close()
		if l, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(n+10000))); err != nil {
			continue
		}
		_ = l.Close()
		s.run(t, "--cluster-enabled", "yes", "--cluster-node-timeout", "1000", "--cluster-replica-validity-factor", "0")
		servers[s.addr], args, addrs = s, append(args, s.addr), append(addrs, s.addr)
	}
	out, err := exec.Command("redis-cli", append(args, "--cluster-replicas", "1", "--cluster-yes")...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	wait(t, "the cluster", func() bool {
		for _, s := range servers {
			state, role := s.admin(t).ClusterInfo(t.Context()).Val(), s.admin(t).Info(t.Context(), "replication").Val()
			if !strings.Contains(state, "cluster_state:ok") || !strings.Contains(role, "master_link_status:up") && !strings.Contains(role, "state=online") {
				return false
			}
		}
		return true
	})
	return addrs, servers
}

func TestCluster(t *testing.T) {
	t.Parallel()
	addrs, servers := cluster(t)
	cfg := redis.Config{API: "test", Cluster: addrs[:3]}
	t.Run("suite", func(t *testing.T) { suite(t, cfg) })

	a, b := open(t, cfg).Breakers(openMax, nil), open(t, cfg).Breakers(openMax, nil)
	if _, err := a.Update(t.Context(), "primary", func(s breaker.State, now time.Time) breaker.State {
		return breaker.Config{Threshold: 1}.Record(s, 0, breaker.Fail, now, 0)
	}); err != nil {
		t.Fatal(err)
	}
	owner := func(from *server) *server {
		slot := from.admin(t).ClusterKeySlot(t.Context(), "trafficup:{test}:").Val()
		for _, shard := range from.admin(t).ClusterShards(t.Context()).Val() {
			for _, r := range shard.Slots {
				for _, n := range shard.Nodes {
					if r.Start <= slot && slot <= r.End && n.Role == "master" && n.Health == "online" {
						return servers[net.JoinHostPort("127.0.0.1", strconv.FormatInt(n.Port, 10))]
					}
				}
			}
		}
		return nil
	}
	first := owner(servers[addrs[0]])
	var witness *server
	for _, s := range servers {
		if s != first {
			witness = s
		}
	}
	// A URL that names one node says so, when it is the wrong one.
	err := open(t, redis.Config{API: "test", URL: "redis://" + witness.addr}).Check(t.Context())
	if e, ok := errors.AsType[*redis.Error](err); !ok || !strings.Contains(e.Hint, "as a cluster") {
		t.Errorf("one node: %v", err)
	}
	first.signal(t, syscall.SIGSTOP)
	whileAway(t, a, func() bool { o := owner(witness); return o != nil && o != first })
	t.Logf("shared again %s after the failover", shares(t, a, b))
	if got, err := b.Load(t.Context(), "primary"); err != nil || got.Phase != breaker.Open {
		t.Errorf("after the failover: %+v, %v", got, err)
	}
	first.signal(t, syscall.SIGCONT)
	shares(t, a, b)
}

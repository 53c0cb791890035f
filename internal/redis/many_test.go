package redis_test

import (
	"errors"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"trafficup/internal/breaker"
	"trafficup/internal/redis"
	"trafficup/internal/redis/redistest"
	"trafficup/internal/secret"
)

// shares waits until two clients see each other's changes.
func shares(t *testing.T, a, b *redis.Breakers) {
	t.Helper()
	wait(t, "both to share again", func() bool {
		_, err := a.Update(t.Context(), "shared", fail)
		one, err2 := a.Load(t.Context(), "shared")
		other, err3 := b.Load(t.Context(), "shared")
		return errors.Join(err, err2, err3) == nil && one == other
	})
}

// whileAway calls a until stop says so. The breaker has to count on meanwhile, and
// no call may take much longer than a timer of the bound that all have.
func whileAway(t *testing.T, a *redis.Breakers, stop func() bool) {
	t.Helper()
	wait(t, "the failover", func() bool {
		bounded(t, func() {
			if got, _ := a.Update(t.Context(), "primary", fail); got.Failures == 0 {
				t.Errorf("%+v", got)
			}
		})
		return stop()
	})
}

// bounded runs fn beside a timer of [redis.Timeout]. What the library would wait
// for of its own accord is at least twelve times that.
func bounded(t *testing.T, fn func()) {
	t.Helper()
	timer := make(chan time.Duration, 1)
	begin := time.Now()
	go func() {
		time.Sleep(redis.Timeout)
		timer <- time.Since(begin)
	}()
	fn()
	if took, control := time.Since(begin), <-timer; took > 4*control {
		t.Errorf("took %s, a timer of %s took %s", took, redis.Timeout, control)
	}
}

func TestSentinels(t *testing.T) {
	t.Parallel()
	g := redistest.Sentinel(t)
	cfg := redis.Config{API: "test", Sentinel: redis.Sentinel{Master: g.Name, Addrs: g.Addrs()}}
	t.Run("suite", func(t *testing.T) { suite(t, cfg) })
	if i, err := open(t, cfg.Patient()).Inspect(t.Context()); err != nil || i.Sentinels != 3 || i.Nodes != 0 || i.Role != "master" || len(i.Peers) != 4 || !reflect.DeepEqual(i.Peers[3], redis.Peer{Addr: g.Replica.Addr, Replica: true}) || i.Denied != nil {
		t.Errorf("%+v, %v", i, err)
	}
	g.Nodes[0].Do("ACL", "SETUSER", "up", "on", ">"+password, "-@all", "+sentinel|get-master-addr-by-name")
	guarded := cfg
	guarded.Sentinel.Addrs, guarded.Sentinel.Username, guarded.Sentinel.Password = g.Addrs()[:1], "up", secret.New(password)
	want := []redis.Peer{{Addr: g.Nodes[0].Addr, Denied: []string{"+sentinel|master", "+sentinel|replicas"}}}
	if i, err := open(t, guarded.Patient()).Inspect(t.Context()); err != nil || i.Sentinels != 0 || !reflect.DeepEqual(i.Peers, want) {
		t.Errorf("%+v, %v", i, err)
	}

	a, b := open(t, cfg).Breakers(openMax, nil), open(t, cfg).Breakers(openMax, nil)
	shares(t, a, b)
	g.Master.Signal(syscall.SIGSTOP)
	whileAway(t, a, func() bool { return strings.Contains(g.Replica.Info("replication"), "role:master") })
	shares(t, a, b)
	g.Master.Signal(syscall.SIGCONT)
	shares(t, a, b)

	bad := cfg
	bad.Sentinel.Master = "day"
	if err := open(t, bad.Patient()).Check(t.Context()); !errors.Is(err, redis.ErrMisconfigured) {
		t.Errorf("of another master: %v", err)
	}
}

func TestCluster(t *testing.T) {
	t.Parallel()
	nodes := redistest.Cluster(t)
	cfg := redis.Config{API: "test", Cluster: nodes.Addrs()[:3]}
	t.Run("suite", func(t *testing.T) { suite(t, cfg) })
	if i, err := open(t, cfg.Patient()).Inspect(t.Context()); err != nil || i.Nodes != 6 || i.Sentinels != 0 || i.Denied != nil || i.Peers != nil || i.Role != "master" {
		t.Errorf("%+v, %v", i, err)
	}

	a, b := open(t, cfg).Breakers(openMax, nil), open(t, cfg).Breakers(openMax, nil)
	wait(t, "the first word", func() bool {
		_, err := a.Update(t.Context(), "primary", func(s breaker.State, now time.Time) breaker.State {
			return breaker.Config{Threshold: 1}.Record(s, 0, breaker.Fail, now, 0)
		})
		return err == nil
	})
	first := nodes.Owner("trafficup:{test}:", nodes[0])
	witness := nodes[0]
	if witness == first {
		witness = nodes[1]
	}
	// A URL that names one node says so, when it is the wrong one.
	err := open(t, redis.Config{API: "test", URL: witness.URL()}.Patient()).Check(t.Context())
	if e, ok := errors.AsType[*redis.Error](err); !ok || !strings.Contains(e.Hint, "as a cluster") {
		t.Errorf("one node: %v", err)
	}
	first.Signal(syscall.SIGSTOP)
	whileAway(t, a, func() bool {
		o := nodes.Owner("trafficup:{test}:", witness)
		return o != nil && o != first
	})
	shares(t, a, b)
	if got, err := b.Load(t.Context(), "primary"); err != nil || got.Phase != breaker.Open {
		t.Errorf("after the failover: %+v, %v", got, err)
	}
	first.Signal(syscall.SIGCONT)
	shares(t, a, b)
}

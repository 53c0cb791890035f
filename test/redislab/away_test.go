//go:build linux

package redislab

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"trafficup/internal/redis"
	"trafficup/internal/redis/redistest"
)

// Uploads are watched for so long, beginning a second after the last of them did.
const (
	before = 8 * time.Second // with Redis
	away   = 8 * time.Second // from when it leaves, and at least until all are back
	after  = 4 * time.Second // that
)

// TestStopped takes Redis away, as a server that hangs, and gives it back.
func TestStopped(t *testing.T) {
	program(t)
	s := redistest.Start(t)
	withoutRedis(t, redis.Config{URL: s.URL()}, func(*fleet) {
		s.Signal(syscall.SIGSTOP)
		time.Sleep(away)
		s.Signal(syscall.SIGCONT)
	})
}

// TestSentinel kills the master; its sentinels make the replica one.
func TestSentinel(t *testing.T) {
	program(t)
	g := redistest.Sentinel(t)
	withoutRedis(t, redis.Config{Sentinel: redis.Sentinel{Master: g.Name, Addrs: g.Addrs()}}, func(*fleet) { g.Master.Stop() })
}

// TestCluster kills the master that holds what the uploads share; a replica takes
// its place.
func TestCluster(t *testing.T) {
	program(t)
	nodes := redistest.Cluster(t)
	withoutRedis(t, redis.Config{Cluster: nodes.Addrs()}, func(f *fleet) { nodes.Owner(f.client.Key("limit"), nodes[0]).Stop() })
}

// withoutRedis holds that eight uploads keep their pace, and together the ceiling,
// while Redis is away and when it comes back; that each says so once; and that they
// share what they know from then on.
func withoutRedis(t *testing.T, on redis.Config, leave func(*fleet)) {
	f := newFleet(t, on, fmt.Sprintf("  shared_rate: %v\nbreaker: {store: redis, threshold: %d, open: 3s}\n", ceiling, threshold))
	for range eight {
		f.add(640)
	}
	start := f.startAll() + time.Second
	time.Sleep(time.Second + before)
	left := f.now()
	leave(f)
	redistest.Wait(t, "all to share again", func() bool { return f.all("redis is back") })
	t.Logf("all share again %.2f s after Redis left", (f.now() - left).Seconds())
	time.Sleep(left + away - f.now())
	back := f.now()
	time.Sleep(after)
	end := f.now()
	for _, u := range f.uploads {
		if u.hasEnded() {
			t.Fatalf("%s has ended too soon\n%s", u.name, u.said())
		}
		if gone, came := u.times("going on alone"), u.times("redis is back"); gone != 1 || came != 1 {
			t.Errorf("%s said %d times that redis is away, and %d times that it is back\n%s", u.name, gone, came, u.said())
		}
	}
	f.leased()
	f.kept(start, left, back, end)
	f.sharedOutage()
	f.finish()
}

// leased holds that all uploads take their part of the ceiling from Redis.
func (f *fleet) leased() {
	f.t.Helper()
	key, was := f.client.Key("limit"), map[string]string{}
	redistest.Wait(f.t, "all to lease", func() bool {
		fresh := 0
		err := f.client.Do(context.Background(), func(ctx context.Context, c goredis.UniversalClient) error {
			is, err := c.HGetAll(ctx, key).Result()
			for field, value := range is {
				if before, known := was[field]; known && value != before && strings.HasPrefix(field, "node ") {
					fresh++
				}
				was[field] = cmp.Or(was[field], value)
			}
			return err
		})
		return err == nil && fresh == len(f.uploads)
	})
}

// kept holds that the pace is the same before Redis left, while it was away, and
// after.
func (f *fleet) kept(start, left, back, end time.Duration) {
	f.t.Helper()
	calls, stalls := f.answered(), f.stalls.seen()
	was := f.paced(calls, stalls, start, left)
	for _, span := range [][2]time.Duration{{left, back}, {back, end}} {
		got := rate(calls, stalls, span[0], span[1])
		f.t.Logf("%.1f to %.1f s: %.1f %% of what it was before; the machine stood still for %s", span[0].Seconds(), span[1].Seconds(),
			100*got/was, lost(stalls, span[0], span[1]).Round(time.Millisecond))
		if got < 0.95*was && f.tells(stalls, start, left) && f.tells(stalls, span[0], span[1]) {
			f.t.Errorf("%.1f calls a second, want at least 95 %% of %.1f", got, was)
		}
	}
	f.below(calls, stalls, start, end)
}

// sharedOutage lets the API fail for a moment: all together need no more failures
// to see it than one alone, but for those calls that are under way.
func (f *fleet) sharedOutage() {
	f.t.Helper()
	began := f.fail(true)
	opened := f.opened().Since
	redistest.Wait(f.t, "all to meet the breaker", func() bool { return f.all("breaker open") })
	time.Sleep(time.Until(opened.Add(2 * time.Second)))
	f.fail(false)
	f.opening(between(f.answered(), began, f.now()), began, f.api.since(opened))
}

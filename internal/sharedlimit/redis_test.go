package sharedlimit

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	goredis "github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"trafficup/internal/redis"
	"trafficup/internal/redis/redistest"
	"trafficup/internal/sharedlimit/sharedlimittest"
)

// direct is a Redis without a bound on its calls, for tests that are about what
// the scripts do.
type direct struct{ *goredis.Client }

func (d direct) Key(parts ...string) string { return "trafficup:{test}:" + strings.Join(parts, ":") }

func (d direct) Eval(ctx context.Context, script *redis.Script, keys []string, args ...any) ([]any, error) {
	return script.Run(ctx, d.Client, keys, args...)
}

func dial(t *testing.T, addr string) direct {
	t.Helper()
	c := goredis.NewClient(&goredis.Options{Addr: addr, MaxRetries: -1, ReadTimeout: time.Minute})
	t.Cleanup(func() { _ = c.Close() })
	return direct{c}
}

// onEach runs a test on miniredis and on a real server.
func onEach(t *testing.T, test func(*testing.T, direct)) {
	t.Run("miniredis", func(t *testing.T) { test(t, dial(t, miniredis.RunT(t).Addr())) })
	t.Run("redis-server", func(t *testing.T) {
		test(t, dial(t, redistest.Start(t).Addr))
	})
}

// The scripts do what the model does, at any time and in any order.
func TestScriptsAgainstModel(t *testing.T) {
	onEach(t, func(t *testing.T, c direct) {
		// Time is an argument here.
		travel := strings.Replace(leaseText, "redis.call('TIME')", "{ARGV[8], ARGV[9]}", 1)
		rapid.Check(t, func(rt *rapid.T) {
			ctx, keys := context.Background(), limitKeys(c)
			if err := c.FlushAll(ctx).Err(); err != nil {
				rt.Fatal(err)
			}
			var model sharedlimittest.Ceiling
			us := rapid.Int64Range(1e15, 2e15).Draw(rt, "time")
			ceiling := rapid.Int64Range(100, 3_000_000).Draw(rt, "ceiling")
			length := rapid.SampledFrom([]int64{100, 250, 300}).Draw(rt, "window")
			for range rapid.IntRange(1, 40).Draw(rt, "steps") {
				us += rapid.SampledFrom([]int64{0, 1, 999, 30_000, 31_250, 100_000, 250_000, 2_000_500, -40_000, -3_000_000}).Draw(rt, "later")
				node := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}).Draw(rt, "node")
				window := us / 1000 / length
				if rapid.IntRange(0, 9).Draw(rt, "leaves") == 0 {
					n := rapid.Int64Range(0, 20).Draw(rt, "returned")
					model.Leave(node, map[int64]int64{window: n, window + 1: 2 * n})
					if _, err := c.Eval(ctx, leaveScript, keys, node, window, n, window+1, 2*n); err != nil {
						rt.Fatal(err)
					}
					continue
				}
				r := sharedlimittest.Request{
					Node: node, Class: rapid.IntRange(1, 3).Draw(rt, "class"), Window: length, Ceiling: ceiling,
					Demand:  rapid.Int64Range(0, 2*ceiling*length/1000).Draw(rt, "demand"),
					AtOnce:  rapid.Int64Range(0, 50).Draw(rt, "at once"),
					Credit0: rapid.Int64Range(0, 999).Draw(rt, "credit"),
				}
				if rapid.IntRange(0, 5).Draw(rt, "other ceiling") == 0 {
					r.Ceiling /= 3
				}
				want := model.Lease(us, r)
				got, err := c.Client.Eval(ctx, travel, keys, r.Node, r.Class, r.Demand, r.AtOnce, r.Ceiling, r.Credit0, r.Window, us/1e6, us%1e6).Int64Slice()
				if err != nil {
					rt.Fatal(err)
				}
				if fmt.Sprint(got) != fmt.Sprint(want) {
					rt.Fatalf("at %d, %+v: redis %v, model %v", us, r, got, want)
				}
			}
			held, want := c.HGetAll(ctx, keys[0]).Val(), map[string]string{}
			for name, n := range model.Nodes {
				want["node "+name] = fmt.Sprint(n.Class, n.Demand, n.Ceiling, n.Credit, n.Last, n.SeenMS)
			}
			for w, n := range model.Windows {
				want[fmt.Sprint("window ", w)] = fmt.Sprint(n.Before, n.Within)
			}
			if fmt.Sprint(held) != fmt.Sprint(want) {
				rt.Errorf("redis holds %v, the model %v", held, want)
			}
			if len(held) > 0 && c.PTTL(ctx, keys[0]).Val() <= 0 {
				rt.Error("it never goes")
			}
		})
	})
}

func TestScriptsAreForgotten(t *testing.T) {
	onEach(t, func(t *testing.T, c direct) {
		for range 3 {
			if err := c.ScriptFlush(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				a, err := takeLease(t.Context(), c, request{node: "n", demand: 50000, ceiling: 200000})
				if err != nil || a.nodes != 1 || a.into < 0 || a.into >= window {
					t.Errorf("%+v, %v", a, err)
				}
			}
		}
	})
}

func TestAnswersOfRedisThatAreNone(t *testing.T) {
	onEach(t, func(t *testing.T, c direct) {
		if err := c.Set(t.Context(), limitKeys(c)[0], "x", 0).Err(); err != nil {
			t.Fatal(err)
		}
		if _, err := takeLease(t.Context(), c, request{node: "n"}); err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
			t.Error(err)
		}
		l := open(t, c, "n", Nightly, 200)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := l.Wait(ctx); err != nil {
			t.Error(err)
		}
		if s := l.Stats(); !s.Away || s.Failures == 0 {
			t.Errorf("%+v", s)
		}
	})
}

// eight nodes are at work on one server.
func eight(t *testing.T, ctx context.Context, c *crowd, on func() Redis) (nodes []*Limiter) {
	for n := range 8 {
		name := fmt.Sprint("node", n)
		l := open(t, on(), name, Nightly, 200)
		c.work(ctx, l, name, 16, 20*time.Millisecond)
		nodes = append(nodes, l)
	}
	return nodes
}

// On a real server, in real time: they never spend more than the ceiling, and each
// gets a part. How much of it a machine's timers let them spend is for the bubbles.
func TestEightNodesOnRedis(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	var c crowd
	start := time.Now()
	nodes := eight(t, ctx, &c, func() Redis { return dial(t, s.Addr) })
	c.wg.Wait()
	took := time.Since(start)
	var spent, expired int64
	for _, l := range nodes {
		s := l.Stats()
		spent, expired = spent+s.Spent, expired+s.Expired
		if s.Failures > 0 || s.Spent == 0 || s.Nodes != 8 {
			t.Errorf("%+v", s)
		}
	}
	t.Logf("%d spent, %d expired in %s", spent, expired, took)
	// The first and the last window count as a whole, and so does a call of each node.
	if most := 200*(took+2*window).Seconds() + 8; float64(spent) > most {
		t.Errorf("%d spent, at most %.0f", spent, most)
	}
	if float64(spent) < 50*took.Seconds() { // a quarter: what one node alone would not be given
		t.Errorf("%d spent", spent)
	}
}

// Over clients that pause: the server is stopped in mid-run, the nodes go on, each
// with its part, and are back soon after the server is.
func TestRedisIsStopped(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	ctx, cancel := context.WithCancel(t.Context())
	var c crowd
	defer c.wg.Wait()
	defer cancel()
	nodes := eight(t, ctx, &c, func() Redis {
		cl, err := redis.Open(redis.Config{API: "test", URL: s.URL()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cl.Close() })
		return cl
	})
	all := func(what string, ok func(Stats) bool) {
		redistest.Wait(t, what, func() bool {
			for _, l := range nodes {
				if !ok(l.Stats()) {
					return false
				}
			}
			return true
		})
	}
	// They begin with eight: what counts is what Redis has told.
	all("all to know each other", func(s Stats) bool { return !s.Away && s.Nodes == 8 && s.Asked > s.Failures })
	s.Signal(syscall.SIGSTOP)
	all("all to pause", func(s Stats) bool { return s.Away && errors.Is(s.Err, redis.ErrPaused) })
	var before []Stats
	for _, l := range nodes {
		before = append(before, l.Stats())
	}
	time.Sleep(time.Second)
	for n, l := range nodes {
		if s := l.Stats(); s.Spent == before[n].Spent || s.Nodes != 8 {
			t.Errorf("stopped: %+v, a second before %+v", s, before[n])
		}
	}
	s.Signal(syscall.SIGCONT)
	all("all to be back", func(s Stats) bool { return !s.Away && s.Nodes == 8 })
}

// What a node has not spent is there for the others as soon as it goes.
func TestCloseReturnsTheLease(t *testing.T) {
	onEach(t, func(t *testing.T, c direct) {
		held := func() (calls, nodes int) {
			for field, v := range c.HGetAll(t.Context(), limitKeys(c)[0]).Val() {
				if strings.HasPrefix(field, "node ") {
					nodes++
					continue
				}
				before, _, _ := strings.Cut(v, " ")
				n, _ := strconv.Atoi(before)
				calls += n
			}
			return calls, nodes
		}
		redistest.Wait(t, "a lease that is returned", func() bool {
			l := New(Config{Node: "n", Ceiling: 2000}, c)
			if err := l.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			before, _ := held()
			l.Close()
			l.Close()
			after, nodes := held()
			if nodes != 0 {
				t.Errorf("%d nodes", nodes)
			}
			// A quarter of a window's 500 calls. None is spent, unless all this took too long.
			return before >= 125 && after <= before-100
		})
	})
}

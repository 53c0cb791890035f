package sharedlimit

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	goredis "github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"trafficup/internal/sharedlimit/sharedlimittest"
)

// client gives go-redis the shape of a Scripter.
type client struct{ *goredis.Client }

func (c client) Eval(ctx context.Context, text string, keys []string, args ...any) (any, error) {
	return c.Client.Eval(ctx, text, keys, args...).Result()
}

func (c client) EvalSHA(ctx context.Context, sha string, keys []string, args ...any) (any, error) {
	return c.EvalSha(ctx, sha, keys, args...).Result()
}

func dial(t *testing.T, addr string) client {
	t.Helper()
	c := goredis.NewClient(&goredis.Options{
		Addr: addr, MaxRetries: -1, ContextTimeoutEnabled: true, DialTimeout: callTimeout, ReadTimeout: callTimeout, WriteTimeout: callTimeout,
	})
	t.Cleanup(func() { _ = c.Close() })
	return client{c}
}

// serve runs a redis-server on a free port until the test ends.
func serve(t *testing.T) (addr string, process *os.Process) {
	t.Helper()
	if os.Getenv("REDIS") != "1" {
		t.Skip("REDIS is not 1: no test with servers of its own")
	}
	path, err := exec.LookPath("redis-server")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("this machine lacks redis-server: install the Debian package redis-server")
		}
		t.Skip("this machine lacks redis-server: install the Debian package redis-server")
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr = free.Addr().String()
	_, port, _ := net.SplitHostPort(addr)
	_ = free.Close()
	dir := t.TempDir()
	cmd := exec.Command(path, "--port", port, "--bind", "127.0.0.1", "--dir", dir, "--logfile", filepath.Join(dir, "log"), "--save", "")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	c := dial(t, addr)
	for begin := time.Now(); c.Ping(t.Context()).Err() != nil; time.Sleep(10 * time.Millisecond) {
		if time.Since(begin) > 10*time.Second {
			log, _ := os.ReadFile(filepath.Join(dir, "log"))
			t.Fatalf("redis-server does not answer:\n%s", log)
		}
	}
	return addr, cmd.Process
}

// onEach runs a test on miniredis and on a real server.
func onEach(t *testing.T, test func(*testing.T, client)) {
	t.Run("miniredis", func(t *testing.T) { test(t, dial(t, miniredis.RunT(t).Addr())) })
	t.Run("redis-server", func(t *testing.T) {
		addr, _ := serve(t)
		test(t, dial(t, addr))
	})
}

// The scripts do what the model does, at any time and in any order.
func TestScriptsAgainstModel(t *testing.T) {
	onEach(t, func(t *testing.T, c client) {
		// Time is an argument here.
		travel := strings.Replace(leaseText, "redis.call('TIME')", "{ARGV[8], ARGV[9]}", 1)
		rapid.Check(t, func(rt *rapid.T) {
			ctx, keys := context.Background(), limitKeys(prefix)
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
					if _, err := leaveScript.run(ctx, c, keys, node, window, n, window+1, 2*n); err != nil {
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
			nodes, windows := c.HGetAll(ctx, keys[0]).Val(), c.HGetAll(ctx, keys[1]).Val()
			want := map[string]string{}
			for name, n := range model.Nodes {
				want[name] = fmt.Sprint(n.Class, n.Demand, n.Ceiling, n.Credit, n.Last, n.SeenMS)
			}
			if fmt.Sprint(nodes) != fmt.Sprint(want) {
				rt.Errorf("nodes in redis %v, in the model %v", nodes, want)
			}
			want = map[string]string{}
			for w, n := range model.Windows {
				want[fmt.Sprint(w)] = fmt.Sprint(n.Before, n.Within)
			}
			if fmt.Sprint(windows) != fmt.Sprint(want) {
				rt.Errorf("windows in redis %v, in the model %v", windows, want)
			}
			for _, key := range keys {
				if len(nodes) > 0 && len(windows) > 0 && c.PTTL(ctx, key).Val() <= 0 {
					rt.Errorf("%s never goes", key)
				}
			}
		})
	})
}

func TestScriptsAreForgotten(t *testing.T) {
	onEach(t, func(t *testing.T, c client) {
		for range 3 {
			if err := c.ScriptFlush(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				a, err := takeLease(t.Context(), c, prefix, request{node: "n", demand: 50000, ceiling: 200000})
				if err != nil || a.nodes != 1 || a.into < 0 || a.into >= window {
					t.Errorf("%+v, %v", a, err)
				}
			}
		}
	})
}

func TestAnswersOfRedisThatAreNone(t *testing.T) {
	onEach(t, func(t *testing.T, c client) {
		if err := c.Set(t.Context(), prefix+"ceiling:nodes", "x", 0).Err(); err != nil {
			t.Fatal(err)
		}
		if _, err := takeLease(t.Context(), c, prefix, request{node: "n"}); err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
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

// eight nodes are at work on a real server, each with a client of its own.
func eight(t *testing.T, ctx context.Context, addr string, c *crowd) []*Limiter {
	var all []*Limiter
	for n := range 8 {
		name := fmt.Sprint("node", n)
		l := open(t, dial(t, addr), name, Nightly, 200)
		c.work(ctx, l, name, 16, 20*time.Millisecond)
		all = append(all, l)
	}
	return all
}

func tell(t *testing.T, nodes []*Limiter) {
	var sum Stats
	for _, l := range nodes {
		s := l.Stats()
		sum.Spent, sum.Expired, sum.Asked, sum.Failures = sum.Spent+s.Spent, sum.Expired+s.Expired, sum.Asked+s.Asked, sum.Failures+s.Failures
	}
	t.Logf("all together: %d spent, %d expired, %d calls to redis, %d of them failed", sum.Spent, sum.Expired, sum.Asked, sum.Failures)
}

// steady plays a scene against the clock and then judges it. A machine that lets
// timers be late by as much as a call may be is no place to judge: the scene is
// played again, three times at most.
func steady(t *testing.T, play func(*testing.T) (judge func())) {
	for left := 2; ; left-- {
		ctx, cancel := context.WithCancel(t.Context())
		latest := make(chan time.Duration, 1)
		go func() {
			late := time.Duration(0)
			for ctx.Err() == nil {
				begin := time.Now()
				time.Sleep(5 * time.Millisecond)
				late = max(late, time.Since(begin)-5*time.Millisecond)
			}
			latest <- late
		}()
		judge := play(t)
		cancel()
		late := <-latest
		t.Logf("timers were late by up to %s", late)
		if left == 0 || late < patience/2 {
			judge()
			return
		}
	}
}

func TestEightNodesOnRedis(t *testing.T) {
	t.Parallel()
	steady(t, func(t *testing.T) func() {
		addr, _ := serve(t)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		var c crowd
		start := time.Now()
		nodes := eight(t, ctx, addr, &c)
		c.wg.Wait()
		tell(t, nodes)
		return func() {
			within(t, "percent of the ceiling", c.between("", start, 0, 10*time.Second)/2, 95, 100.5)
			within(t, "most in one second", float64(c.most()), 190, 220)
			for _, l := range nodes {
				if s := l.Stats(); s.Failures > 0 || s.Asked > 60 {
					t.Errorf("%+v", s)
				}
			}
		}
	})
}

func TestRedisIsStopped(t *testing.T) {
	t.Parallel()
	steady(t, func(t *testing.T) func() {
		addr, process := serve(t)
		ctx, cancel := context.WithTimeout(t.Context(), 12*time.Second)
		defer cancel()
		var c crowd
		start := time.Now()
		nodes := eight(t, ctx, addr, &c)
		at := func(d time.Duration) { time.Sleep(time.Until(start.Add(d))) }
		at(4 * time.Second)
		if err := process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		at(8 * time.Second)
		var stopped []Stats
		for _, l := range nodes {
			stopped = append(stopped, l.Stats())
		}
		if err := process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		c.wg.Wait()
		tell(t, nodes)
		return func() {
			before := c.between("", start, time.Second, 4*time.Second)
			within(t, "before", before, 190, 202)
			within(t, "stopped", c.between("", start, 4*time.Second, 8*time.Second), 0.95*before, 202)
			within(t, "after", c.between("", start, 8*time.Second, 12*time.Second), 0.95*before, 202)
			within(t, "most in one second", float64(c.most()), 190, 220)
			for n, l := range nodes {
				if s := stopped[n]; !s.Away || s.Nodes != 8 {
					t.Errorf("stopped: %+v", s)
				}
				if s := l.Stats(); s.Away || s.Nodes != 8 {
					t.Errorf("after: %+v", s)
				}
			}
		}
	})
}

// What a node has not spent is there for the others as soon as it goes.
func TestCloseReturnsTheLease(t *testing.T) {
	onEach(t, func(t *testing.T, c client) {
		given := func() (sum int) {
			for _, v := range c.HGetAll(t.Context(), limitKeys(prefix)[1]).Val() {
				before, _, _ := strings.Cut(v, " ")
				n, _ := strconv.Atoi(before)
				sum += n
			}
			return sum
		}
		for try := 0; ; try++ {
			l := New(Config{Prefix: prefix, Node: "n", Ceiling: 2000}, c)
			if err := l.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			before := given()
			l.Close()
			l.Close()
			if n := c.HLen(t.Context(), limitKeys(prefix)[0]).Val(); n != 0 {
				t.Errorf("%d nodes", n)
			}
			// A quarter of a window's 500 calls. None is spent, unless all this took too long.
			if after := given(); before >= 125 && after <= before-100 {
				return
			} else if try == 5 {
				t.Fatalf("%d calls given, %d after the end", before, after)
			}
		}
	})
}

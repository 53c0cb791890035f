package sharedlimit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"trafficup/internal/redis"
	"trafficup/internal/sharedlimit/sharedlimittest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// crowd is nodes at work, each with so many workers whose calls take a while.
type crowd struct {
	mu    sync.Mutex
	times map[string][]time.Time // guarded by mu; of the calls, by node
	wg    sync.WaitGroup
}

func (c *crowd) work(ctx context.Context, l *Limiter, name string, workers int, call time.Duration) {
	for range workers {
		c.wg.Go(func() {
			for l.Wait(ctx) == nil {
				c.mu.Lock()
				if c.times == nil {
					c.times = map[string][]time.Time{}
				}
				c.times[name] = append(c.times[name], time.Now())
				c.mu.Unlock()
				time.Sleep(call)
			}
		})
	}
}

// between is the calls of the nodes whose names begin so, a second, in a time.
func (c *crowd) between(name string, start time.Time, from, to time.Duration) float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for node, times := range c.times {
		for _, t := range times {
			if d := t.Sub(start); strings.HasPrefix(node, name) && d >= from && d < to {
				n++
			}
		}
	}
	return float64(n) / (to - from).Seconds()
}

// most is the most calls in any second, wherever it begins.
func (c *crowd) most() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []time.Time
	for _, times := range c.times {
		all = append(all, times...)
	}
	slices.SortFunc(all, time.Time.Compare)
	most, first := 0, 0
	for i, t := range all {
		for t.Sub(all[first]) >= time.Second {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

func open(t *testing.T, on Redis, name string, class Class, ceiling float64) *Limiter {
	t.Helper()
	l := New(Config{Node: name, Class: class, Ceiling: ceiling, Nodes: 8}, on)
	t.Cleanup(l.Close)
	return l
}

func within(t *testing.T, what string, got, least, most float64) {
	t.Helper()
	t.Logf("%s: %.1f", what, got)
	if got < least || got > most {
		t.Errorf("%s: %.1f, want %.1f to %.1f", what, got, least, most)
	}
}

func TestEightNodesShareACeiling(t *testing.T) {
	for _, ceiling := range []float64{3, 20, 200, 1000} {
		for _, slow := range []time.Duration{0, 40 * time.Millisecond, 150 * time.Millisecond} {
			synctest.Test(t, func(t *testing.T) {
				srv := &sharedlimittest.Server{}
				srv.Slow(slow)
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				var c crowd
				start := time.Now()
				for n := range 8 {
					name := fmt.Sprint("node", n)
					c.work(ctx, open(t, srv, name, Nightly, ceiling), name, 64, 50*time.Millisecond)
				}
				c.wg.Wait()
				within(t, fmt.Sprintf("%v/s, %s: percent", ceiling, slow), 100*c.between("", start, 0, 30*time.Second)/ceiling, 95, 100.5)
				most := 1.1 * ceiling
				if ceiling < 100 { // less than three calls for each in a window: a second touches five windows
					most = 1.25*ceiling + 1
				}
				within(t, fmt.Sprintf("%v/s, %s: most in one second", ceiling, slow), float64(c.most()), ceiling, most)
				for n := range 8 {
					if got := c.between(fmt.Sprint("node", n), start, 2*time.Second, 30*time.Second); ceiling >= 20 && math.Abs(got-ceiling/8) > 0.1*ceiling/8 {
						t.Errorf("%v/s, %s: node %d has %.2f", ceiling, slow, n, got)
					}
				}
				// Once a window, and the script's text once.
				if calls := srv.Calls(); calls > 8*30*4+8*8 {
					t.Errorf("%d calls to redis", calls)
				}
			})
		}
	}
}

func TestWhatOthersDoNotNeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &sharedlimittest.Server{}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		var c crowd
		start := time.Now()
		c.work(ctx, open(t, srv, "modest", Nightly, 200), "modest", 1, 100*time.Millisecond)
		c.work(ctx, open(t, srv, "greedy", Nightly, 200), "greedy", 64, 50*time.Millisecond)
		c.wg.Wait()
		within(t, "modest", c.between("modest", start, 2*time.Second, 20*time.Second), 9, 10)
		within(t, "greedy", c.between("greedy", start, 2*time.Second, 20*time.Second), 180, 191)
	})
}

func TestClasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &sharedlimittest.Server{}
		all, end := context.WithTimeout(t.Context(), 40*time.Second)
		defer end()
		night, morning := context.WithTimeout(t.Context(), 20*time.Second)
		defer morning()
		var c crowd
		start := time.Now()
		c.work(all, open(t, srv, "backfill", Backfill, 200), "backfill", 64, 50*time.Millisecond)
		c.work(all, open(t, srv, "replay", Replay, 200), "replay", 64, 50*time.Millisecond)
		time.Sleep(5 * time.Second)
		c.work(night, open(t, srv, "nightly", Nightly, 200), "nightly", 64, 50*time.Millisecond)
		c.wg.Wait()
		part := func(name string, from, to int, least, most float64) {
			within(t, fmt.Sprintf("%s from second %d", name, from), c.between(name, start, time.Duration(from)*time.Second, time.Duration(to)*time.Second), least, most)
		}
		part("replay", 2, 5, 185, 191)
		part("backfill", 2, 5, 9, 11)
		part("nightly", 6, 20, 165, 171)
		part("replay", 6, 20, 19, 21)
		part("backfill", 6, 20, 9, 11)
		// Two leases of the nightly one expire; after that, what was its part goes to
		// the first who asks.
		part("", 20, 23, 155, 202)
		part("", 21, 23, 180, 202)
		part("replay", 23, 40, 185, 191)
		part("backfill", 23, 40, 9, 11)
	})
}

// A record that comes after a quiet time waits for one answer of Redis, no more.
func TestFirstRecordWaitsForOneAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &sharedlimittest.Server{}
		l := open(t, srv, "node", Nightly, 200)
		for range 5 {
			before := time.Now()
			if err := l.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			if waited := time.Since(before); waited > 60*time.Millisecond {
				t.Errorf("waited for %s", waited)
			}
			time.Sleep(time.Minute)
		}
		if calls := srv.Calls(); calls > 5*3+2 {
			t.Errorf("%d calls to redis, most of them for nobody", calls)
		}
	})
}

func TestRedisIsAway(t *testing.T) {
	for name, begin := range map[string]func(*sharedlimittest.Server){
		"refused": func(s *sharedlimittest.Server) { s.Fail(errors.New("connection refused")) },
		"stopped": func(s *sharedlimittest.Server) { s.Slow(time.Hour) },
		"paused":  func(s *sharedlimittest.Server) { s.Fail(fmt.Errorf("%w: %w", redis.ErrPaused, redis.ErrAway)) },
	} {
		synctest.Test(t, func(t *testing.T) {
			srv := &sharedlimittest.Server{}
			ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
			defer cancel()
			var c crowd
			var nodes []*Limiter
			start := time.Now()
			for n := range 8 {
				name := fmt.Sprint("node", n)
				l := New(Config{Node: name, Ceiling: 200}, srv)
				t.Cleanup(l.Close)
				nodes = append(nodes, l)
				c.work(ctx, l, name, 16, 50*time.Millisecond)
			}
			time.Sleep(10*time.Second + 33*time.Millisecond)
			begin(srv)
			time.Sleep(10 * time.Second)
			for _, l := range nodes {
				if s := l.Stats(); !s.Away || s.Err == nil || s.Nodes != 8 {
					t.Errorf("%+v", s)
				}
			}
			srv.Fail(nil)
			srv.Slow(0)
			c.wg.Wait()
			for s := 1; s < 40; s++ {
				from := time.Duration(s) * time.Second
				if got := c.between("", start, from, from+time.Second); got < 190 || got > 210 {
					t.Errorf("%s: %v in second %d", name, got, s)
				}
			}
			within(t, name+": before", c.between("", start, time.Second, 10*time.Second), 190, 201)
			within(t, name+": meanwhile", c.between("", start, 10*time.Second, 20*time.Second), 190, 201)
			within(t, name+": after", c.between("", start, 20*time.Second, 40*time.Second), 190, 201)
			within(t, name+": most", float64(c.most()), 190, 220)
			for _, l := range nodes {
				if s := l.Stats(); s.Away || s.Err != nil || s.Nodes != 8 {
					t.Errorf("%+v", s)
				}
			}
		})
	}
}

// One call that fails is made up for at once.
func TestOneCallFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &sharedlimittest.Server{}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		l := New(Config{Node: "n", Ceiling: 200}, srv)
		defer l.Close()
		var c crowd
		c.work(ctx, l, "n", 16, 50*time.Millisecond)
		time.Sleep(5 * time.Second)
		srv.Fail(errors.New("LOADING"))
		time.Sleep(400 * time.Millisecond)
		srv.Fail(nil)
		c.wg.Wait()
		if s := l.Stats(); s.Failures != 1 || s.Away {
			t.Errorf("%+v", s)
		}
	})
}

// A client that has paused makes no calls: its return is noticed within
// 300 ms, however long it took. The eight return one after the other, as far
// apart as their clients' probes may be; nobody takes what another one still
// spends.
func TestPauseEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &sharedlimittest.Server{}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		var c crowd
		var clients []*pausing
		var nodes []*Limiter
		start := time.Now()
		for n := range 8 {
			name := fmt.Sprint("node", n)
			p := &pausing{Server: srv}
			clients = append(clients, p)
			nodes = append(nodes, open(t, p, name, Nightly, 200))
			c.work(ctx, nodes[n], name, 16, 50*time.Millisecond)
		}
		time.Sleep(5 * time.Second)
		for _, p := range clients {
			p.paused.Store(true)
		}
		time.Sleep(5 * time.Second)
		calls, before := srv.Calls(), nodes[0].Stats()
		time.Sleep(5 * time.Second)
		if n := srv.Calls() - calls; n != 0 {
			t.Errorf("%d calls in the pause", n)
		}
		if s := nodes[0].Stats(); s.Asked != before.Asked || s.Failures != before.Failures {
			t.Errorf("counts calls that were not made: %+v, %+v", before, s)
		}
		for n, p := range clients {
			p.paused.Store(false)
			time.Sleep(300 * time.Millisecond)
			if s := nodes[n].Stats(); s.Away {
				t.Errorf("not back: %+v", s)
			}
		}
		c.wg.Wait()
		for s := 1; s < 30; s++ {
			from := time.Duration(s) * time.Second
			if got := c.between("", start, from, from+time.Second); got < 190 || got > 210 {
				t.Errorf("%v in second %d", got, s)
			}
		}
		within(t, "most", float64(c.most()), 190, 220)
	})
}

// pausing is a client that may have paused.
type pausing struct {
	*sharedlimittest.Server
	paused atomic.Bool
}

func (p *pausing) Eval(ctx context.Context, script *redis.Script, keys []string, args ...any) ([]any, error) {
	if p.paused.Load() {
		return nil, redis.ErrPaused
	}
	return p.Server.Eval(ctx, script, keys, args...)
}

// Nobody has ever seen Redis: the configured number of nodes counts.
func TestRedisWasNeverThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &sharedlimittest.Server{}
		srv.Slow(time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		var c crowd
		start := time.Now()
		c.work(ctx, open(t, srv, "node", Nightly, 200), "node", 16, 50*time.Millisecond)
		c.wg.Wait()
		within(t, "alone", c.between("", start, time.Second, 10*time.Second), 23.5, 25.2)
	})
}

func TestNodesGoAndCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &sharedlimittest.Server{}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		var c crowd
		start := time.Now()
		c.work(ctx, open(t, srv, "stays", Nightly, 200), "stays", 64, 50*time.Millisecond)
		goes := New(Config{Node: "goes", Ceiling: 200}, srv)
		c.work(ctx, goes, "goes", 64, 50*time.Millisecond)
		time.Sleep(5 * time.Second)
		goes.Close()
		if err := goes.Wait(t.Context()); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
		if n := srv.Nodes(); n != 1 {
			t.Errorf("%d nodes", n)
		}
		c.wg.Wait()
		within(t, "both", c.between("", start, time.Second, 5*time.Second), 190, 201)
		within(t, "right after", c.between("", start, 5*time.Second, 6*time.Second), 180, 215)
		within(t, "one", c.between("", start, 6*time.Second, 20*time.Second), 190, 201)
	})
}

func TestLowestCeilingCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &sharedlimittest.Server{}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		var c crowd
		start := time.Now()
		a, b := open(t, srv, "a", Nightly, 200), open(t, srv, "b", Nightly, 200)
		c.work(ctx, a, "a", 64, 50*time.Millisecond)
		c.work(ctx, b, "b", 64, 50*time.Millisecond)
		time.Sleep(5 * time.Second)
		a.Set(80)
		time.Sleep(5 * time.Second)
		b.Set(80)
		a.Set(400)
		b.Set(400)
		c.wg.Wait()
		within(t, "both 200", c.between("", start, time.Second, 5*time.Second), 190, 201)
		within(t, "one 80", c.between("", start, 6*time.Second, 10*time.Second), 76, 81)
		within(t, "both 400", c.between("", start, 11*time.Second, 20*time.Second), 380, 401)
	})
}

func TestWaitGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, &sharedlimittest.Server{}, "node", Nightly, 4)
		var wg sync.WaitGroup
		begin := time.Now()
		for n := range 40 {
			ctx := t.Context()
			if n%4 != 0 {
				c, cancel := context.WithTimeout(ctx, time.Duration(n+1)*50*time.Millisecond)
				defer cancel()
				ctx = c
			}
			wg.Go(func() {
				if err := l.Wait(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		wg.Wait()
		within(t, "seconds for ten", time.Since(begin).Seconds(), 2, 6)
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(l.waiting) != 0 {
			t.Errorf("%d still wait", len(l.waiting))
		}
	})
}

func BenchmarkWait(b *testing.B) {
	l := New(Config{Node: "n", Ceiling: 1e6}, &sharedlimittest.Server{})
	defer l.Close()
	for b.Loop() {
		if err := l.Wait(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

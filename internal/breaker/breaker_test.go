package breaker_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"trafficup/internal/breaker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var cfg = breaker.Config{Threshold: 3, Open: 30 * time.Second, OpenMax: 5 * time.Minute, ProbeLease: 15 * time.Second}

// counting counts the calls that reach a store, and fails them on demand.
type counting struct {
	breaker.Store
	updates, loads int
	err            error
	skew           time.Duration // of its clock
}

func (c *counting) Update(ctx context.Context, key string, fn func(breaker.State, time.Time) breaker.State) (breaker.State, error) {
	c.updates++
	s, err := c.Store.Update(ctx, key, func(s breaker.State, now time.Time) breaker.State { return fn(s, now.Add(c.skew)) })
	return s, errors.Join(err, c.err)
}

func (c *counting) Load(ctx context.Context, key string) (breaker.State, error) {
	c.loads++
	s, err := c.Store.Load(ctx, key)
	return s, errors.Join(err, c.err)
}

func call(t *testing.T, b *breaker.Breaker, v breaker.Verdict) {
	t.Helper()
	p, _, ok, err := b.Allow(time.Now())
	if !ok || err != nil {
		t.Fatalf("allow: %v, %v", ok, err)
	}
	if err := b.Record(p, v, time.Now()); err != nil {
		t.Fatal(err)
	}
}

func TestBreakerTellsEachTransitionOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		var b *breaker.Breaker
		b = breaker.New(cfg, breaker.NewMemory(), "primary", func(n breaker.News) {
			_ = b.State() // would hang if called under the lock
			told = append(told, fmt.Sprint(n.Was.Phase, ">", n.Is.Phase))
		})
		var late []breaker.Permit
		for range 10 {
			p, _, _, _ := b.Allow(time.Now())
			late = append(late, p)
		}
		for _, p := range late {
			if err := b.Record(p, breaker.Fail, time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		start := time.Now()
		for range 5 {
			if _, at, ok, _ := b.Allow(time.Now()); ok || !at.Equal(start.Add(30*time.Second)) {
				t.Fatalf("%v, ask at %s", ok, at)
			}
		}
		time.Sleep(30 * time.Second)
		call(t, b, breaker.Neutral)
		call(t, b, breaker.Fail)
		time.Sleep(time.Minute)
		call(t, b, breaker.OK)
		want := []string{"closed>open", "open>half-open", "half-open>open", "open>half-open", "half-open>closed"}
		if !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
	})
}

func TestBreakerLeavesTheStoreAloneWhileAllIsWell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &counting{Store: breaker.NewMemory()}
		b := breaker.New(cfg, store, "primary", nil)
		for range 1000 {
			call(t, b, breaker.OK)
			call(t, b, breaker.Neutral)
		}
		if store.updates != 1 || store.loads != 0 {
			t.Errorf("%d updates, %d loads in no time", store.updates, store.loads)
		}
		for range 100 {
			time.Sleep(10 * time.Millisecond)
			call(t, b, breaker.OK)
		}
		if store.updates != 1 || store.loads != 4 {
			t.Errorf("%d updates, %d loads in a second", store.updates, store.loads)
		}
	})
}

func TestBreakersShareOneFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "breaker.json")
	synctest.Test(t, func(t *testing.T) {
		var told []string
		a := breaker.New(cfg, breaker.NewFile(path), "primary", nil)
		b := breaker.New(cfg, breaker.NewFile(path), "primary", func(n breaker.News) {
			told = append(told, fmt.Sprint(n.Was.Phase, ">", n.Is.Phase))
		})
		call(t, b, breaker.OK)
		for range 3 {
			call(t, a, breaker.Fail)
		}
		opened := time.Now()
		time.Sleep(250 * time.Millisecond)
		if _, _, ok, err := b.Allow(time.Now()); ok || err != nil {
			t.Errorf("the other process sends on: %v", err)
		}
		// A new process starts: it neither resets nor extends the open time.
		time.Sleep(20 * time.Second)
		c := breaker.New(cfg, breaker.NewFile(path), "primary", nil)
		if _, at, ok, err := c.Allow(time.Now()); ok || err != nil || !at.Equal(opened.Add(30*time.Second)) {
			t.Errorf("new process: %v, %v, ask at %s", ok, err, at)
		}
		time.Sleep(time.Until(opened.Add(30 * time.Second)))
		probes := 0
		var probe breaker.Permit
		for _, x := range []*breaker.Breaker{a, b, c} {
			if p, _, ok, _ := x.Allow(time.Now()); ok {
				probes++
				probe = p
			}
		}
		if probes != 1 || !probe.Probe {
			t.Fatalf("%d probes, %+v", probes, probe)
		}
		if err := a.Record(probe, breaker.OK, time.Now()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(250 * time.Millisecond)
		call(t, b, breaker.OK)
		if want := []string{"closed>open", "open>half-open", "half-open>closed"}; !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
	})
}

func TestBreakerOutlivesAFileFromTheFuture(t *testing.T) {
	path := filepath.Join(t.TempDir(), "breaker.json")
	if err := os.WriteFile(path, []byte(`{"v":1,"breakers":{"primary":{"phase":2,"open_until":"2099-01-01T00:00:00Z"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		b := breaker.New(cfg, breaker.NewFile(path), "primary", nil)
		for {
			_, at, ok, err := b.Allow(time.Now())
			if err != nil {
				t.Fatal(err)
			}
			if ok {
				break
			}
			time.Sleep(min(time.Until(at), time.Minute))
		}
		if d := time.Since(start); d != cfg.OpenMax {
			t.Errorf("shut for %s, want %s", d, cfg.OpenMax)
		}
	})
}

func TestBreakerWithABrokenStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("disk full")
		b := breaker.New(cfg, &counting{Store: breaker.NewMemory(), err: broken}, "primary", nil)
		for range 3 {
			p, _, ok, _ := b.Allow(time.Now())
			if err := b.Record(p, breaker.Fail, time.Now()); !ok || !errors.Is(err, broken) {
				t.Fatalf("%v, %v", ok, err)
			}
		}
		if _, _, ok, _ := b.Allow(time.Now()); ok || b.State().Phase != breaker.Open {
			t.Errorf("does not open without its store: %+v", b.State())
		}
	})
}

func TestBreakerUsesTheStoresClock(t *testing.T) {
	for _, skew := range []time.Duration{10 * time.Minute, -10 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			b := breaker.New(cfg, &counting{Store: breaker.NewMemory(), skew: skew}, "primary", nil)
			for range 3 {
				call(t, b, breaker.Fail)
			}
			want := time.Now().Add(30 * time.Second)
			if _, at, ok, _ := b.Allow(time.Now()); ok || !at.Equal(want) {
				t.Errorf("skew %s: %v, ask at %s, want %s", skew, ok, at, want)
			}
			time.Sleep(30 * time.Second)
			call(t, b, breaker.OK)
		})
	}
}

func TestBreakerManyCallersOneProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var last atomic.Int64
		var disorder atomic.Bool
		b := breaker.New(cfg, breaker.NewMemory(), "primary", func(n breaker.News) {
			if n.Moved() && last.Swap(int64(n.Is.Phase)) != int64(n.Was.Phase) {
				disorder.Store(true)
			}
		})
		for range 3 {
			call(t, b, breaker.Fail)
		}
		for range 20 {
			time.Sleep(5 * time.Minute)
			var probes atomic.Int64
			var wg sync.WaitGroup
			for range 32 {
				wg.Go(func() {
					p, _, ok, err := b.Allow(time.Now())
					if err != nil {
						t.Error(err)
					}
					if ok {
						probes.Add(1)
						time.Sleep(time.Second)
						if err := b.Record(p, breaker.Fail, time.Now()); err != nil {
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
			if probes.Load() != 1 {
				t.Fatalf("%d probes", probes.Load())
			}
		}
		if disorder.Load() {
			t.Error("transitions were told out of order")
		}
	})
}

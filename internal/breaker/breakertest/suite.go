// Package breakertest is the suite every breaker.Store has to pass.
package breakertest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"trafficup/internal/breaker"
)

// Run tests the stores newStore returns. Within one subtest, told by t, every
// call returns a store on the same data, which is empty at first: the same Store
// where it cannot be opened twice, a further one where it can.
func Run(t *testing.T, newStore func(t *testing.T) breaker.Store) {
	t.Run("empty key is the zero state", func(t *testing.T) {
		s := newStore(t)
		got, err := s.Load(t.Context(), "primary")
		want(t, got, err, breaker.State{})
		got, err = s.Update(t.Context(), "primary", func(s breaker.State, _ time.Time) breaker.State { return s })
		want(t, got, err, breaker.State{})
	})
	t.Run("what is stored reads back the same", func(t *testing.T) {
		a, b := newStore(t), newStore(t)
		full := fullState()
		got, err := a.Update(t.Context(), "primary", func(breaker.State, time.Time) breaker.State { return full })
		want(t, got, err, full)
		for _, s := range []breaker.Store{a, b} {
			got, err = s.Load(t.Context(), "primary")
			want(t, got, err, full)
			got, err = s.Update(t.Context(), "primary", func(s breaker.State, _ time.Time) breaker.State { return s })
			want(t, got, err, full)
		}
	})
	t.Run("keys are apart", func(t *testing.T) {
		s := newStore(t)
		for i, key := range []string{"primary", "fallback", "", "a/b:c {d}\n\"é"} {
			got, err := s.Update(t.Context(), key, func(s breaker.State, _ time.Time) breaker.State {
				s.Failures += i + 1
				return s
			})
			want(t, got, err, breaker.State{Failures: i + 1})
		}
		got, err := s.Load(t.Context(), "primary")
		want(t, got, err, breaker.State{Failures: 1})
	})
	t.Run("the clock runs", func(t *testing.T) {
		s := newStore(t)
		var last time.Time
		for range 5 {
			_, err := s.Update(t.Context(), "primary", func(s breaker.State, now time.Time) breaker.State {
				if now.IsZero() || now.Before(last) {
					t.Errorf("clock went from %s to %s", last, now)
				}
				last = now
				return s
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	})
	t.Run("no update is lost", func(t *testing.T) { noLostUpdate(t, newStore) })
	t.Run("one probe for many callers", func(t *testing.T) { oneProbe(t, newStore) })
	t.Run("an operator's word holds for all", func(t *testing.T) { forced(t, newStore) })
}

const (
	workers = 16
	rounds  = 25
)

func noLostUpdate(t *testing.T, newStore func(t *testing.T) breaker.Store) {
	stores := []breaker.Store{newStore(t), newStore(t)}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() {
			for range rounds {
				for _, key := range []string{"shared", fmt.Sprintf("own-%d", i)} {
					_, err := stores[i%2].Update(ctx, key, func(s breaker.State, _ time.Time) breaker.State {
						s.Failures++
						return s
					})
					if err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	for _, s := range stores {
		got, err := s.Load(t.Context(), "shared")
		want(t, got, err, breaker.State{Failures: workers * rounds})
		for i := range workers {
			got, err := s.Load(t.Context(), fmt.Sprintf("own-%d", i))
			want(t, got, err, breaker.State{Failures: rounds})
		}
	}
}

func oneProbe(t *testing.T, newStore func(t *testing.T) breaker.Store) {
	stores := []breaker.Store{newStore(t), newStore(t)}
	cfg := breaker.Config{Threshold: 1, Open: 1, OpenMax: 1, ProbeLease: time.Hour}
	_, err := stores[0].Update(t.Context(), "primary", func(s breaker.State, now time.Time) breaker.State {
		return cfg.Record(s, s.Generation, breaker.Fail, now.Add(-time.Second), 0)
	})
	if err != nil {
		t.Fatal(err)
	}
	var (
		wg     sync.WaitGroup
		mu     sync.Mutex
		probes int
	)
	for i := range 2 * workers {
		wg.Go(func() {
			var allowed bool // of the last call of fn: the one that was stored
			_, err := stores[i%2].Update(t.Context(), "primary", func(s breaker.State, now time.Time) breaker.State {
				next, ok, _ := cfg.Allow(s, now, 0)
				allowed = ok
				return next
			})
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if allowed {
				probes++
			}
		})
	}
	wg.Wait()
	if probes != 1 {
		t.Errorf("%d probes at once", probes)
	}
}

// forced lets many callers fail and ask at once while an operator holds the
// breaker closed, and then open.
func forced(t *testing.T, newStore func(t *testing.T) breaker.Store) {
	stores := []breaker.Store{newStore(t), newStore(t)}
	cfg := breaker.Config{Threshold: 1, Open: 1, OpenMax: 1}
	hold := func(store breaker.Store, p breaker.Phase) breaker.State {
		s, err := store.Update(t.Context(), "primary", func(s breaker.State, now time.Time) breaker.State {
			return cfg.Force(s, breaker.Force{Phase: p, Until: now.Add(time.Hour), Reason: "test", By: "ops@host"}, now)
		})
		want(t, s, err, s)
		return s
	}
	var allowed atomic.Int64
	everybody := func() {
		var wg sync.WaitGroup
		for i := range 2 * workers {
			wg.Go(func() {
				var ok bool
				_, err := stores[i%2].Update(t.Context(), "primary", func(s breaker.State, now time.Time) breaker.State {
					s, ok, _ = cfg.Allow(s, now, 0)
					return cfg.Record(s, s.Generation, breaker.Fail, now, 0)
				})
				if err != nil {
					t.Error(err)
				}
				if ok {
					allowed.Add(1)
				}
			})
		}
		wg.Wait()
	}
	for i, p := range []breaker.Phase{breaker.Closed, breaker.Open} {
		held := hold(stores[i], p)
		everybody()
		got, err := stores[1-i].Load(t.Context(), "primary")
		want(t, got, err, held)
	}
	if n := allowed.Load(); n != 2*workers {
		t.Errorf("%d of %d were let through while it was closed, or some while it was open", n, 2*workers)
	}
	got, err := stores[0].Update(t.Context(), "primary", cfg.Reset)
	want(t, got, err, got)
	if got.Phase != breaker.Closed || got.Force != (breaker.Force{}) {
		t.Errorf("after the reset: %+v", got)
	}
}

func fullState() breaker.State {
	at := time.Date(2026, 7, 17, 0, 3, 11, 123456789, time.UTC)
	return breaker.State{
		Phase: breaker.HalfOpen, Failures: 3, FirstFailure: at, OpenUntil: at.Add(1), ProbeUntil: at.Add(2),
		Opens: 4, Generation: 1<<64 - 1, Since: at.Add(3),
		Transitions: breaker.Transitions{Closed: 5, HalfOpen: 6, Open: 7}, Changes: breaker.Changes{at.Add(4), at.Add(-5)},
		Force: breaker.Force{Phase: breaker.Open, Until: at.Add(6), Reason: "moved to a/b \"é\" <x>", By: "ops@host", At: at.Add(7)},
	}
}

func want(t *testing.T, got breaker.State, err error, want breaker.State) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
	if got != want {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

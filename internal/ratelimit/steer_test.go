package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"trafficup/internal/sandbox"
)

func TestSteerGrowsOnlyWithUse(t *testing.T) {
	s := NewSteer()
	if got := s.Rate(t0); got != 0 {
		t.Errorf("before anything is learnt: %v", got)
	}
	s.learnt = ceiling{wall: 10, dip: firstDip, trust: 1}
	now, before := t0, s.Rate(t0)
	for range 3600 { // far fewer than allowed
		if d := s.ask(now, false); d != 0 {
			t.Fatal(d)
		}
		now = now.Add(time.Second)
	}
	if got := s.Rate(now); got != before {
		t.Errorf("from %v/s to %v/s without need", before, got)
	}
}

// Refused whatever it does, it keeps asking, and soon finds out that it is over.
func TestSteerOutlivesTotalRefusal(t *testing.T) {
	n := night{workers: 16, rtt: 50 * time.Millisecond, rate: 100, burst: 10, length: 300 * time.Second}
	n.change = func(at time.Duration, l *rate.Limiter, now time.Time) {
		burst := 10
		if at > 60*time.Second && at < 120*time.Second {
			burst = 0
		}
		l.SetBurstAt(now, burst)
	}
	s := n.play()
	_, before := s.between(120, 121)
	calls := 0
	for _, no := range s.refused[70:120] {
		calls += no
	}
	got, refused := s.between(180, 300)
	t.Logf("%d calls in the last 50 s of it; a minute later %.1f/s, refused %.2f %%", calls, got, 100*refused)
	if calls < 10 || calls > 100 || got < 90 || refused > 0.01 || before > 1 {
		t.Error("misses the aim")
	}
}

func TestSteerWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSteer()
		s.published = published{rate: 1, until: time.Now().Add(time.Hour)}
		if err := s.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		soon, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		start := time.Now()
		if err := s.Wait(soon); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 0 {
			t.Errorf("%v after %s", err, time.Since(start))
		}
		var order []int
		var mu sync.Mutex
		var wg sync.WaitGroup
		for i := range 3 {
			wg.Go(func() {
				if err := s.Wait(t.Context()); err != nil {
					t.Error(err)
				}
				mu.Lock() // they come one a second
				defer mu.Unlock()
				order = append(order, i)
			})
			synctest.Wait()
		}
		stop, cancel2 := context.WithCancel(t.Context())
		wg.Go(func() {
			if err := s.Wait(stop); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
		cancel2()
		wg.Wait()
		if d := time.Since(start); fmt.Sprint(order) != "[0 1 2]" || d != 3*time.Second {
			t.Errorf("order %v in %s", order, d)
		}
	})
}

// The parts together, with goroutines and the sandbox's own limit.
func TestSteerAgainstTheSandbox(t *testing.T) {
	scenario, err := sandbox.ParseScenario([]byte("limit 100 per second burst 10\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name    string
		permits AdaptiveConfig
	}{
		{"fixed", AdaptiveConfig{Min: 16, Max: 16}},
		{"auto", AdaptiveConfig{Max: 64}},
	} {
		synctest.Test(t, func(t *testing.T) {
			server := sandbox.New(scenario)
			s, a := NewSteer(), NewAdaptive(tt.permits)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var wg sync.WaitGroup
			for worker := range 32 {
				wg.Go(func() { upload(ctx, server, s, a, worker) })
			}
			wg.Wait()
			st := server.Stats()
			refused := float64(st.ByStatus[429]) / float64(st.Requests)
			t.Logf("%s: %d applied in a minute, refused %.2f %%, limit %d", tt.name, st.Applied, 100*refused, a.Limit())
			if st.Applied < 5700 || refused > 0.01 {
				t.Errorf("%s: misses the aim", tt.name)
			}
		})
	}
}

func upload(ctx context.Context, server http.Handler, s *Steer, a *Adaptive, worker int) {
	for n := 0; s.Wait(ctx) == nil && a.Acquire(ctx) == nil; n++ {
		sent := time.Now()
		refused := post(server, fmt.Sprintf("key-%d-%d", worker, n))
		now := time.Now()
		a.Release(Sample{Duration: now.Sub(sent), RTT: linkTime, Shrink: refused}, now)
		if refused {
			s.Throttled(sent, now, 0)
		} else {
			s.OK()
		}
	}
}

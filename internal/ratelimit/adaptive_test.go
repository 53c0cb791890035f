package ratelimit

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAdaptiveFindsTheKnee(t *testing.T) {
	t.Parallel()
	for _, rtt := range []time.Duration{5 * time.Millisecond, 50 * time.Millisecond, 230 * time.Millisecond} {
		for _, places := range []int{4, 20, 50} {
			const service = 100 * time.Millisecond
			c := crowd{cfg: AdaptiveConfig{Max: 256}, rtt: rtt, places: places, calls: 8000}
			knee := float64(places) * float64(rtt+service) / float64(service)
			c.service = func(*rand.Rand) time.Duration { return service }
			constant := c.play(0)
			c.service = exponential(service)
			var random float64
			for seed := range uint64(4) {
				random += c.play(seed) / 4
			}
			t.Logf("%s, %d places: knee %.0f, limit %.1f, with random times %.1f", rtt, places, knee, constant, random)
			// A limit is a whole number, and every second one is a probe.
			for _, got := range []float64{constant, random} {
				if got < 0.8*knee || got > 1.2*knee+2 {
					t.Errorf("limit %.1f", got)
				}
			}
		}
	}
}

func TestAdaptiveOnALossyLink(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		mishap func(*Sample)
	}{
		{"sent again by the transport", func(s *Sample) { s.Duration += time.Second }},
		{"timed out", func(s *Sample) { s.Duration, s.Shrink = 2*time.Second, true }},
	} {
		c := crowd{
			cfg: AdaptiveConfig{Max: 64}, rtt: 230 * time.Millisecond, places: 64, calls: 20000, service: exponential(20 * time.Millisecond),
			mishap: func(r *rand.Rand, s *Sample) {
				if r.Float64() < 0.01 {
					tt.mishap(s)
				}
			},
		}
		got := c.play(1)
		t.Logf("%s: mean limit %.1f of %d", tt.name, got, c.cfg.Max)
		if got < 0.9*float64(c.cfg.Max) {
			t.Errorf("%s: mean limit %.1f", tt.name, got)
		}
	}
}

// feed lets n calls of one duration end at the limit, and returns the new limit.
func feed(c *climb, n int, s Sample, busy bool, now time.Time) int {
	for range n {
		c.learn(s, busy, now)
	}
	return c.whole()
}

func TestClimb(t *testing.T) {
	usual := Sample{Duration: 100 * time.Millisecond, RTT: 50 * time.Millisecond}
	frozen, slower, farther := usual, usual, usual
	frozen.Frozen = true
	slower.Duration = 200 * time.Millisecond
	farther.Duration, farther.RTT = 200*time.Millisecond, 150*time.Millisecond
	bad := Sample{Duration: 100 * time.Millisecond, Shrink: true}
	for _, tt := range []struct {
		name string
		n    int
		s    Sample
		busy bool
		want int
	}{
		{"slow start doubles", 32 + 32, usual, true, 64},
		{"nobody asks for more", 1000, usual, false, 32},
		{"gate closed", 1000, frozen, true, 32},
		{"durations double", 32 + 32, slower, true, 16},
		{"the link becomes slower", 32 + 32, farther, true, 64},
		{"one burst of refusals", 32, bad, true, 28},
		{"neither answer nor duration", 1000, Sample{}, true, 32},
	} {
		c := newClimb(AdaptiveConfig{Min: 1, Max: 64})
		c.limit, c.floor = 16, 16
		if got := feed(&c, 32, usual, true, t0); got != 32 {
			t.Fatalf("first round: %d", got)
		}
		if got := feed(&c, tt.n, tt.s, tt.busy, t0.Add(time.Second)); got != tt.want {
			t.Errorf("%s: limit %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestClimbStaysInsideItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lo := rapid.IntRange(-1, 8).Draw(t, "min")
		cfg := AdaptiveConfig{Min: lo, Max: rapid.IntRange(-1, 100).Draw(t, "max")}
		a := NewAdaptive(cfg)
		now := t0
		for range rapid.IntRange(1, 500).Draw(t, "calls") {
			s := Sample{
				Duration: time.Duration(rapid.Int64().Draw(t, "duration")), RTT: time.Duration(rapid.Int64().Draw(t, "rtt")),
				Shrink: rapid.Bool().Draw(t, "shrink"), Frozen: rapid.Bool().Draw(t, "frozen"),
			}
			if err := a.Acquire(context.Background()); err != nil {
				t.Fatal(err)
			}
			a.Release(s, now)
			now = now.Add(time.Second)
			if got := a.Limit(); got < max(lo, 1) || got > max(cfg.Max, lo, 1) {
				t.Fatalf("limit %d", got)
			}
		}
	})
}

func TestAdaptiveFixed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := NewAdaptive(AdaptiveConfig{Min: 3, Max: 3})
		var inUse, most atomic.Int64
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				if err := a.Acquire(t.Context()); err != nil {
					t.Error(err)
				}
				most.Store(max(most.Load(), inUse.Add(1)))
				time.Sleep(time.Second)
				inUse.Add(-1)
				a.Release(Sample{Duration: time.Second, Shrink: i%2 == 0}, time.Now())
			})
		}
		wg.Wait()
		if most.Load() != 3 || a.Limit() != 3 {
			t.Errorf("%d in use, limit %d", most.Load(), a.Limit())
		}
	})
}

func TestAdaptiveAcquireGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := NewAdaptive(AdaptiveConfig{Min: 1, Max: 1})
		if err := a.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				if err := a.Acquire(ctx); !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			})
		}
		wg.Go(func() {
			if err := a.Acquire(t.Context()); err != nil {
				t.Error(err)
			}
			a.Release(Sample{}, time.Now())
		})
		synctest.Wait()
		cancel()
		synctest.Wait()
		a.Release(Sample{}, time.Now())
		wg.Wait()
		if err := a.Acquire(ctx); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if a.inUse != 0 || len(a.waiting) != 0 {
			t.Errorf("%d in use, %d waiting", a.inUse, len(a.waiting))
		}
	})
}

package ratelimit

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"golang.org/x/time/rate"
)

// A refusal costs a pause. What a ceiling gives from the tenth second on, over
// links that jitter where the bucket bears it.
func TestSteerWhereRefusalsCostAPause(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		after          time.Duration
		least, long    float64 // of the ceiling, from 10 s to 60 s and to 130 s
		auto, autoLong float64 // the same with permits found by auto
	}{
		{time.Second, 0.85, 0.90, 0.70, 0.85},
		{2 * time.Second, 0.70, 0.80, 0.60, 0.80},
	} {
		for _, ceiling := range []float64{10, 20, 50, 100, 200} {
			for _, part := range []float64{0.1, 0.5, 1} {
				for _, rtt := range []time.Duration{time.Millisecond, 50 * time.Millisecond} {
					for _, workers := range []int{1, 8, 64, 0} {
						n := paidNight(ceiling, int(part*ceiling), rtt, workers, tt.after, 1)
						s := n.play()
						first, refused := s.between(10, 60)
						long, refusedLong := s.between(10, 130)
						first, long = first/n.asked(), long/n.asked()
						least, leastLong := tt.least, tt.long
						if workers == 0 { // bunches, while permits are few
							least, leastLong = tt.auto, tt.autoLong
						}
						name := fmt.Sprintf("%s: %.0f/s, %s", tt.after, ceiling, n)
						t.Logf("%s, permits %v: %.1f %% and %.1f %%, refused %.2f %%", name, workers, 100*first, 100*long, 100*max(refused, refusedLong))
						if first < least || long < leastLong || max(refused, refusedLong) > 0.02 {
							t.Errorf("%s: misses the aim", name)
						}
					}
				}
			}
		}
	}
}

// paidNight is one with permits found by auto if there are no workers.
func paidNight(ceiling float64, burst int, rtt time.Duration, workers int, after time.Duration, seed uint64) night {
	r := rand.New(rand.NewPCG(seed, 1))
	n := night{workers: workers, rtt: rtt, rate: ceiling, burst: burst, length: 130 * time.Second, after: after, seed: seed}
	if workers == 0 {
		n.workers, n.permits = 64, &AdaptiveConfig{Max: 64}
	}
	if burst > 1 {
		n.jitter = func(int) time.Duration { return time.Duration(r.Int64N(int64(rtt)/10 + 1)) }
	}
	return n
}

func TestSteerOutlivesTotalRefusalWithPauses(t *testing.T) {
	t.Parallel()
	n := paidNight(100, 10, 50*time.Millisecond, 16, time.Second, 1)
	n.change = func(at time.Duration, l *rate.Limiter, now time.Time) {
		burst := 10
		if at > 30*time.Second && at < 60*time.Second {
			burst = 0
		}
		l.SetBurstAt(now, burst)
	}
	got, refused := n.play().between(90, 130)
	t.Logf("half a minute later %.1f/s, refused %.2f %%", got, 100*refused)
	if got < 85 || refused > 0.02 {
		t.Error("misses the aim")
	}
}

// What has passed the gate waits for the end of the pause, too.
func TestSteerPauses(t *testing.T) {
	s := NewSteer()
	s.ask(t0, false)
	s.Throttled(t0, t0, 2*time.Second)
	if d := s.ask(t0, false); d != 2*time.Second {
		t.Errorf("waits %s", d)
	}
	s.Throttled(t0, t0.Add(time.Second), time.Hour)
	if d := s.ask(t0.Add(time.Second), false); d != longestPause {
		t.Errorf("waits %s of an hour", d)
	}
}

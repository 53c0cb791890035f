package ratelimit

import (
	"testing"
	"time"

	"golang.org/x/time/rate"
)

func TestSteerWhereRefusalsComeByChance(t *testing.T) {
	t.Parallel()
	for _, share := range []float64{0.005, 0.01, 0.02, 0.05, 0.1} {
		for _, rtt := range []time.Duration{5 * time.Millisecond, 50 * time.Millisecond} {
			worst := 1.0
			for seed := range uint64(3) {
				n := night{workers: 8, rtt: rtt, rate: 1e9, burst: 1e6, length: 60 * time.Second, unlucky: share, seed: seed}
				s := n.play()
				free := 8 / rtt.Seconds() * (1 - share)
				got, _ := s.between(20, 60)
				worst = min(worst, got/free)
				if got < 0.8*free {
					t.Errorf("%.1f %%, %s, seed %d: %.1f %%", 100*share, rtt, seed, 100*got/free)
				}
			}
			t.Logf("%.1f %%, %s: at worst %.1f %%", 100*share, rtt, 100*worst)
		}
	}
}

func TestSteerFindsACeilingThatComesAndGoes(t *testing.T) {
	t.Parallel()
	for _, burst := range []int{1, 10, 100} {
		for _, rtt := range []time.Duration{5 * time.Millisecond, 50 * time.Millisecond} {
			n := night{workers: 8, rtt: rtt, rate: 100, burst: burst, length: 420 * time.Second}
			n.change = func(at time.Duration, l *rate.Limiter, now time.Time) {
				from(60*time.Second, 30)(at, l, now)
				if at > 120*time.Second {
					from(120*time.Second, 100)(at, l, now)
				}
			}
			s := n.play()
			low, no := s.between(70, 120)
			back, noBack := s.between(360, 420)
			t.Logf("%s: %.1f/s of 30, refused %.2f %%; %.1f/s of 100, %.2f %%", n, low, 100*no, back, 100*noBack)
			if low < 0.9*30 || no > 0.02 || back < 93 || noBack > 0.01 {
				t.Errorf("%s: misses the aim", n)
			}
		}
	}
}

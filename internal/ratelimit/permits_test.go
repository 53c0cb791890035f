package ratelimit

import (
	"math/rand/v2"
	"testing"
	"time"
)

// Rate and permits are learnt at once, as with --concurrency=auto, over a link
// that jitters by a tenth of its round trip.
func TestSteerWithPermits(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		burst         int
		rtt           time.Duration
		least, later  float64 // of the ceiling, in the first minute and after it
		refused, most float64
	}{
		{10, 20 * time.Millisecond, 0.97, 0.97, 0.01, 0.01},
		{10, 50 * time.Millisecond, 0.95, 0.97, 0.01, 0.01},
		// The calls come in bunches, which a small bucket takes for too many.
		{10, 230 * time.Millisecond, 0.60, 0.90, 0.01, 0.01},
		// All permits are in use by the time the bucket runs dry.
		{100, 20 * time.Millisecond, 0.97, 0.97, 0.01, 0.01},
		{100, 50 * time.Millisecond, 0.97, 0.97, 0.015, 0.01},
		{100, 230 * time.Millisecond, 0.95, 0.97, 0.02, 0.01},
	} {
		first, refused, after, refusedAfter := 1.0, 0.0, 1.0, 0.0
		for seed := range uint64(4) {
			r := rand.New(rand.NewPCG(seed, 1))
			n := night{
				workers: 64, rtt: tt.rtt, rate: 100, burst: tt.burst, length: 2 * time.Minute, permits: &AdaptiveConfig{Max: 64},
				jitter: func(int) time.Duration { return time.Duration(r.Int64N(int64(tt.rtt) / 10)) },
			}
			s := n.play()
			got, no := s.between(0, 60)
			first, refused = min(first, got/n.rate), max(refused, no)
			got, no = s.between(60, 120)
			after, refusedAfter = min(after, got/n.rate), max(refusedAfter, no)
		}
		t.Logf("burst %d, %s: first minute at least %.1f %%, refused %.2f %%; later %.1f %%, %.2f %%",
			tt.burst, tt.rtt, 100*first, 100*refused, 100*after, 100*refusedAfter)
		if first < tt.least || after < tt.later || refused > tt.refused || refusedAfter > tt.most {
			t.Errorf("burst %d, %s: misses the aim", tt.burst, tt.rtt)
		}
	}
}

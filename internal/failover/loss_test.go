package failover

import (
	"math/rand/v2"
	"testing"
	"time"
)

// Ten minutes of lost rounds at random are no reason to go to and fro, whichever
// these are: at most the backup is gone to, once.
func TestLossAtRandom(t *testing.T) {
	for _, share := range []float64{0.1, 0.2, 0.3, 0.4, 0.5} {
		left, most := 0, 0
		for seed := range uint64(100) {
			rng := rand.New(rand.NewPCG(seed, 0))
			w := newWorld(func(i int, t time.Duration) bool {
				return i == 1 || t < time.Minute || rng.Float64() >= share
			}).run(11 * time.Minute)
			n := len(w.switches()) - 1 // the first choice
			if n > 0 {
				left++
			}
			if most = max(most, n); n > 1 {
				t.Errorf("%.0f %% lost, seed %d: %q", 100*share, seed, w.switches())
			}
		}
		t.Logf("%.0f %% lost: left in %d of 100 runs, %d switches at most", 100*share, left, most)
	}
}

// A link that goes and comes every few seconds is left once, if at all.
func TestFlapping(t *testing.T) {
	for _, gone := range []time.Duration{3 * time.Second, 7 * time.Second, 13 * time.Second} {
		for _, there := range []time.Duration{3 * time.Second, 7 * time.Second, 20 * time.Second} {
			for phase := time.Duration(0); phase < gone+there; phase += 2 * time.Second {
				w := newWorld(func(i int, t time.Duration) bool {
					return i == 1 || t < time.Minute || (t+phase)%(gone+there) >= gone
				}).run(6 * time.Minute)
				if n := len(w.switches()) - 1; n > 1 {
					t.Errorf("%v gone, %v there: %q", gone, there, w.switches())
				}
			}
		}
	}
}

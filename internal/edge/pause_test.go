package edge

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"trafficup/internal/failover"
)

// What is to be asked in each other round is, though rounds are a little early and late.
func TestNearestRound(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	m := play(t, time.Hour, func(m *machine, r *Runner) {
		r.Now = func() failover.Now {
			late := time.Duration(rng.IntN(20)) * time.Millisecond
			return failover.Now{Boot: m.since() + late, Wall: time.Now()}
		}
	})
	if n := m.asked[[2]int{0, 2}]; n < 1750 || n > 1850 {
		t.Errorf("%d connections by the active uplink in an hour, want one each other second", n)
	}
}

// A round is as fast as what was asked in it: what a target needed when it was asked
// last counts no more.
func TestOldTimesDoNotCount(t *testing.T) {
	rounds, slow := 0, 0
	play(t, 10*time.Minute, func(m *machine, r *Runner) {
		r.Probe = func(ctx context.Context, uplink, target int) (failover.Answer, bool) {
			a, ok := m.probe(ctx, uplink, target)
			if target == 2 { // in each other round
				a.RTT /= 4
			}
			return a, ok
		}
		r.Record = func(uplink int, d failover.Round) {
			if rounds++; d.RTT == 40*time.Millisecond {
				slow++
			}
		}
	})
	if slow < rounds*4/10 {
		t.Errorf("%d rounds of %d are as slow as what was asked", slow, rounds)
	}
}

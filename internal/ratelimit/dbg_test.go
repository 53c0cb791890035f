package ratelimit

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"trafficup/internal/sandbox"
)

func TestDbg(t *testing.T) {
	scenario, _ := sandbox.ParseScenario([]byte("limit 100 per second burst 10\n"))
	synctest.Test(t, func(t *testing.T) {
		server := sandbox.New(scenario)
		s, a := NewSteer(SteerConfig{Ramp: 16}), NewAdaptive(DefaultAdaptive())
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		go func() {
			var l int64
			for range 58 {
				time.Sleep(time.Second)
				st := server.Stats()
				t.Log(a.climb.limit, a.climb.server, a.climb.slow, a.climb.seen, s.Rate(time.Now()), st.ByStatus[201]-l, st.ByStatus[429])
				l = st.ByStatus[201]
			}
		}()
		var wg sync.WaitGroup
		for worker := range 64 {
			wg.Go(func() {
				for n := 0; s.Wait(ctx) == nil && a.Acquire(ctx) == nil; n++ {
					sent := time.Now()
					refused := post(server, fmt.Sprintf("key-%d-%d", worker, n))
					now := time.Now()
					a.Release(Sample{Duration: now.Sub(sent), RTT: linkTime, Shrink: refused}, now)
					if refused {
						s.Throttled(sent, now)
					} else {
						s.OK()
					}
				}
			})
		}
		wg.Wait()
	})
}

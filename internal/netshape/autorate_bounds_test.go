package netshape

import (
	"testing"
	"time"
)

// A rate that is fitted to the link is never above what was applied, also when that
// becomes less than the least while it goes on; at the end it is what was applied.
func TestGaugeNeverAbove(t *testing.T) {
	for name, tt := range map[string]struct {
		least   uint64
		applied string // after a while
		want    float64
	}{"least above what was applied": {20e6, "9mbit", 9e6}, "applied below the least": {5e6, "3mbit", 3e6}} {
		t.Run(name, func(t *testing.T) {
			gauged(t, func(t *testing.T, b box, k *busyKernel, g Gauge) {
				g.Min = tt.least
				k.run(t, b.Machine, g, 60*time.Second, func(n int) {
					if n == 20 {
						b.apply(t, Desired{Interfaces: []Interface{cakeAt(tt.applied)}})
					}
					if a := must(b.Status("eth1")).Interfaces[0].Autorate; n > 30 && (a == nil || a.Min > a.Applied) {
						t.Errorf("in second %d: %+v", n, a)
					}
					if n > 20 && k.rate() > tt.want || k.rate() > 9e6 {
						t.Errorf("%f in second %d", k.rate(), n)
					}
				})
				if k.rate() != tt.want {
					t.Errorf("%f at the end", k.rate())
				}
				if changed, err := b.steer(t.Context(), "eth1", tt.least, 50e6); changed || err != nil || k.rate() != tt.want {
					t.Errorf("%v, %v, %f", changed, err, k.rate())
				}
			})
		})
	}
}

package edge

import (
	"net/netip"
	"testing"
	"time"

	"trafficup/internal/route"
)

// What is to be cut is told by the switch that was made last, of each uplink.
func TestWhatIsToBeCut(t *testing.T) {
	a, b, c := netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.1.2"), netip.Addr{}
	type cuts [3]time.Duration // from now; -1: none
	for _, test := range []struct {
		name     string
		flush    Flush
		switches []int
		want     cuts
		before   time.Duration // that it was chosen; the routes stand
	}{
		{"the first choice", Flush{Failback: time.Minute}, []int{0}, cuts{-1, time.Minute, -1}, 0},
		{"the first choice is a backup", Flush{Failback: time.Minute}, []int{1}, cuts{0, -1, -1}, 0},
		{"no choice", Flush{}, []int{-1, -1}, cuts{-1, -1, -1}, 0},
		{"failover", Flush{Failback: time.Minute}, []int{0, 1}, cuts{0, -1, -1}, 0},
		{"never", Flush{Failover: -1, Failback: -1}, []int{0, 1, 0}, cuts{-1, -1, -1}, 0},
		{"back", Flush{Failback: time.Minute}, []int{0, 1, 0}, cuts{-1, time.Minute, -1}, 0},
		{"back and away again", Flush{Failover: time.Second, Failback: time.Minute}, []int{0, 1, 0, 1}, cuts{time.Second, -1, -1}, 0},
		{"two are left", Flush{Failover: time.Hour, Failback: -1}, []int{0, 1, 2}, cuts{time.Hour, time.Hour, -1}, 0},
		{"one without an address", Flush{Failover: -1}, []int{2, 0}, cuts{-1, -1, -1}, 0},
		{"the same", Flush{Failover: time.Hour}, []int{1, 1}, cuts{time.Hour, -1, -1}, 0},
		{"another run", Flush{}, []int{0}, cuts{-1, -1, -1}, time.Minute},
		{"a run after one that was killed", Flush{}, []int{1}, cuts{0, -1, -1}, 5 * time.Second},
		{"another configuration while one waits", Flush{Failback: 2 * time.Minute}, []int{0}, cuts{-1, 2 * time.Minute, -1}, time.Minute},
		{"and a switch", Flush{}, []int{0, 1}, cuts{0, -1, -1}, time.Hour},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := NewLocal(&Local{Layout: route.Layout{Uplinks: make([]route.Uplink, 3)}, Flush: test.flush, Since: test.before})
			l.last = []netip.Addr{a, b, c}
			start := time.Now()
			for _, active := range test.switches {
				l.turn(active)
			}
			for i, want := range test.want {
				got := l.cuts[i]
				if got.old.IsValid() != (want >= 0) {
					t.Errorf("uplink %d: %v, want %v", i, got, want)
				} else if want >= 0 && (got.old != l.last[i] || got.at.Before(start.Add(want)) || got.at.After(time.Now().Add(want))) {
					t.Errorf("uplink %d: %v after %v, want %v", i, got.old, got.at.Sub(start), want)
				}
			}
		})
	}
}

// Where the kernel changed the routes it is the first choice of this boot, however long
// ago another one was.
func TestCutsWhenTheRoutesChanged(t *testing.T) {
	l := NewLocal(&Local{Layout: route.Layout{Uplinks: make([]route.Uplink, 2)}, Since: time.Hour})
	l.last[1], l.moved = netip.MustParseAddr("10.0.1.2"), true
	if l.turn(0); !l.cuts[1].old.IsValid() {
		t.Error("nothing is to be cut")
	}
}

// While a large table is looked through, probes are not held up.
func TestCutHoldsNobodyUp(t *testing.T) {
	l := NewLocal(&Local{Layout: route.Layout{Uplinks: make([]route.Uplink, 1)}})
	l.cuts[0] = cut{old: netip.MustParseAddr("192.0.2.77")}
	l.mu.Lock()
	defer l.mu.Unlock()
	done := make(chan error, 1)
	go func() { done <- l.Cut() }()
	select {
	case err := <-done:
		t.Log(err) // it may need rights
	case <-time.After(10 * time.Second):
		t.Error("it waits for what probes hold")
		l.mu.Unlock()
		<-done
		l.mu.Lock()
	}
}

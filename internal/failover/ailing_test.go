package failover

import (
	"slices"
	"testing"
	"time"
)

// A switch tells how long after the first sign of it it came: from the first bad round
// in a row, or from the end of the link. One from an uplink that works tells nothing.
func TestDetectionIsTold(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer func(uplink int, t time.Duration) bool
		gone   func(uplink int, t time.Duration) string
		want   []time.Duration // of the switches
	}{
		{"no answers", func(u int, t time.Duration) bool { return u == 1 || !within(t, 100*time.Second, 200*time.Second) }, nil, []time.Duration{0, 11 * time.Second, 0}},
		{"no link", func(int, time.Duration) bool { return true }, func(u int, t time.Duration) string {
			if u == 0 && within(t, 100*time.Second, 200*time.Second) {
				return "no carrier"
			}
			return ""
		}, []time.Duration{0, 2 * time.Second, 0}},
		{"first one round, and then all", func(u int, t time.Duration) bool {
			return u == 1 || t != 90*time.Second && !within(t, 100*time.Second, 200*time.Second)
		}, nil, []time.Duration{0, 11 * time.Second, 0}},
	} {
		w := newWorld(c.answer)
		w.gone = c.gone
		w.run(400 * time.Second)
		if !slices.Equal(w.after, c.want) {
			t.Errorf("%s: %v, want %v\n%q", c.name, w.after, c.want, w.said)
		}
	}
}

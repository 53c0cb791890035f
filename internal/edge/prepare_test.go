package edge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"trafficup/internal/failover"
)

// filled is a machine whose own upload fills the first uplink.
type filled struct {
	*machine
	full func() bool
}

func (f filled) Look(uplink int) (Link, error) {
	return Link{Gone: f.gone(uplink), Loaded: uplink == 0 && f.full()}, nil
}

// Round trips four times as long as usual leave the uplink where it is while our own
// upload fills it, and only then.
func TestOwnLoadIsNoFault(t *testing.T) {
	for _, loaded := range []bool{true, false} {
		m := play(t, 20*time.Minute, func(m *machine, r *Runner) {
			busy := func() bool { return m.since() > 5*time.Minute }
			r.Kernel = filled{m, func() bool { return loaded && busy() }}
			r.Probe = func(ctx context.Context, uplink, target int) (failover.Answer, bool) {
				a, ok := m.probe(ctx, uplink, target)
				if uplink == 0 && busy() {
					a.RTT = 4*a.RTT + 250*time.Millisecond
				}
				return a, ok
			}
		})
		left := slices.ContainsFunc(m.said, func(s string) bool { return strings.HasSuffix(s, "switch lte") })
		if left == loaded || m.saved.Health[0].Loaded != loaded {
			t.Errorf("loaded %v: %q, %+v", loaded, m.said, m.saved.Health[0])
		}
	}
}

// What belongs to an uplink is prepared when the routes lead there, and seen to
// every ten seconds. A failure is told once and holds nothing up.
func TestPrepares(t *testing.T) {
	var did []string
	m := play(t, 3*time.Minute, func(m *machine, r *Runner) {
		m.answer = func(u, _ int, t time.Duration) bool { return u == 1 || t < time.Minute }
		r.Prepare = func(uplink int) (string, error) {
			m.mu.Lock()
			defer m.mu.Unlock()
			did = append(did, fmt.Sprintf("%d while %d carries", uplink, m.active))
			switch {
			case uplink == 1 && m.since() < 2*time.Minute:
				return "", errors.New("no such queue")
			case len(did) == 1:
				return "set up", nil
			}
			return "", nil
		}
	})
	m.want(t, "2s switch leo", "2s routes ", "2s shaped leo", "1m12s switch lte", "1m12s routes ", "1m12s failed ")
	if did[0] != "0 while 0 carries" || slices.Contains(did, "1 while 0 carries") || len(did) < 16 || len(did) > 20 {
		t.Errorf("%q", did)
	}
}

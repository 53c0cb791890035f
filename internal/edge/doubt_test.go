package edge

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"trafficup/internal/failover"
)

// switched are the switches that were told, but for the first.
func (m *machine) switched() (all []string) {
	for _, s := range m.said {
		if strings.Contains(s, " switch ") {
			all = append(all, s)
		}
	}
	return all[1:]
}

// A backup by which only pings pass any more, since it was asked for connections last, is
// gone to neither for a drill nor because the preferred one lost its link. One that is
// well is at once.
func TestBackupIsAskedAnew(t *testing.T) {
	const then = 15 * time.Minute
	drill := func(m *machine, r *Runner) {
		requests := make(chan failover.Forced, 1) // of the bubble
		r.Requests = requests
		time.AfterFunc(then, func() { requests <- failover.Forced{Uplink: 1, Until: then + time.Minute, Why: "a drill"} })
	}
	cut := func(m *machine, r *Runner) {
		m.gone = func(u int) string {
			if u == 0 && m.since() >= then {
				return "no carrier"
			}
			return ""
		}
	}
	for name, c := range map[string]struct {
		change func(*machine, *Runner)
		well   bool
		want   []string
	}{
		"drill": {drill, true, []string{"15m0s switch lte", "16m0s switch leo"}}, "drill, no connections": {drill, false, nil},
		"cut": {cut, true, []string{"15m2s switch lte"}}, "cut, no connections": {cut, false, nil},
	} {
		m := play(t, then+2*time.Minute, func(m *machine, r *Runner) {
			r.Config.Rules.DwellMax, r.Config.Rules.Dwell = time.Hour, time.Hour
			m.answer = func(u, target int, t time.Duration) bool {
				return u == 0 || target < 2 || c.well || t < then-2*time.Minute
			}
			c.change(m, r)
		})
		if got := m.switched(); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// However short ago it was asked for connections, when they ceased: it is asked anew.
func TestBackupIsAskedAnewAtOnce(t *testing.T) {
	for then := 10 * time.Minute; then < 10*time.Minute+40*time.Second; then += 4 * time.Second {
		m := play(t, then+time.Minute, func(m *machine, r *Runner) {
			requests := make(chan failover.Forced, 1) // of the bubble
			r.Requests = requests
			time.AfterFunc(then, func() { requests <- failover.Forced{Uplink: 1, Until: time.Hour, Why: "a drill"} })
			m.answer = func(u, target int, t time.Duration) bool { return u == 0 || target < 2 || t < then-2*time.Second }
		})
		if got := m.switched(); len(got) > 0 {
			t.Errorf("drill at %v: %q", then, got)
		}
		if n := m.asked[[2]int{1, 0}]; n > 100 {
			t.Errorf("drill at %v: %d pings by the metered uplink", then, n)
		}
	}
}

// Targets that this machine cannot ask do not keep it on an uplink that is dead.
func TestCannotAskAnew(t *testing.T) {
	m := play(t, 3*time.Minute, func(m *machine, r *Runner) {
		probe := r.Probe
		r.Probe = func(ctx context.Context, uplink, target int) (failover.Answer, bool) {
			a, ok := probe(ctx, uplink, target)
			return a, ok && (target < 2 || m.since() < 50*time.Second)
		}
		m.gone = func(u int) string {
			if u == 0 && m.since() > time.Minute {
				return "no carrier"
			}
			return ""
		}
	})
	if got := m.switched(); !slices.Equal(got, []string{"1m5s switch lte"}) {
		t.Errorf("%q", got)
	}
}

package edge

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"trafficup/internal/failover"
)

// beats counts signs of life by the minute.
func beats(m *machine, r *Runner) *[10]int {
	n := new([10]int)
	r.Alive = func() { n[int(m.since()/time.Minute)]++ }
	return n
}

// A loop that goes round tells so, also when nothing answers and when the kernel has no
// link.
func TestAliveThoughAllIsDown(t *testing.T) {
	for name, change := range map[string]func(*machine){
		"no answers": func(m *machine) {
			m.answer = func(_, _ int, t time.Duration) bool { return t < time.Minute }
		},
		"no links": func(m *machine) {
			m.gone = func(int) string { return "no carrier" }
			m.answer = func(int, int, time.Duration) bool { return false }
		},
	} {
		var n *[10]int
		play(t, 5*time.Minute, func(m *machine, r *Runner) { change(m); n = beats(m, r) })
		for minute, got := range n[:5] {
			if got < 30 {
				t.Errorf("%s: %d signs of life in minute %d", name, got, minute)
			}
		}
	}
}

// A loop that hangs says nothing, and neither does one that cannot ask anybody: what
// this machine is out of, a new start may give back.
func TestNotAlive(t *testing.T) {
	hangs := func(m *machine, r *Runner) {
		save := r.Save
		r.Save = func(s failover.State) error {
			if m.since() > 2*time.Minute && m.since() < 3*time.Minute {
				time.Sleep(2 * time.Minute) // a disk, say
			}
			return save(s)
		}
	}
	asksNobody := func(m *machine, r *Runner) {
		probe := r.Probe
		r.Probe = func(ctx context.Context, uplink, target int) (failover.Answer, bool) {
			a, ok := probe(ctx, uplink, target)
			return a, ok && (m.since() < 125*time.Second || m.since() > 4*time.Minute)
		}
	}
	for name, change := range map[string]func(*machine, *Runner){"hangs": hangs, "asks nobody": asksNobody} {
		var n *[10]int
		m := play(t, 6*time.Minute, func(m *machine, r *Runner) { change(m, r); n = beats(m, r) })
		if n[1] < 30 || n[3] > 0 || n[5] < 30 {
			t.Errorf("%s: signs of life by the minute: %v", name, n)
		}
		if m.active != 0 {
			t.Errorf("%s: %d is active", name, m.active)
		}
	}
}

// Where this machine could ask nobody, what was known before is no answer: no round is
// counted. One that could ask some of its targets is.
func TestRoundsOfWhichNothingWasHeard(t *testing.T) {
	for name, c := range map[string]struct {
		asks func(target int) bool
		want bool
	}{"nobody": {func(int) bool { return false }, false}, "two of them": {func(target int) bool { return target%2 == 0 }, true}} {
		minute := [6]int{}
		play(t, 6*time.Minute, func(m *machine, r *Runner) {
			probe := r.Probe
			r.Probe = func(ctx context.Context, uplink, target int) (failover.Answer, bool) {
				if span := m.since(); span > 2*time.Minute && span < 4*time.Minute && !c.asks(target) {
					return failover.Answer{Why: "too many open files"}, false
				}
				return probe(ctx, uplink, target)
			}
			r.Record = func(uplink int, d failover.Round) {
				if uplink == 0 {
					minute[int(d.At/time.Minute)]++
				}
				if d.OK && d.RTT > 0 && d.RTT != 40*time.Millisecond {
					t.Errorf("%s: %+v", name, d)
				}
			}
		})
		if (minute[2] > 50 && minute[3] > 50) != c.want || !c.want && minute[3] > 0 || minute[1] < 50 || minute[5] < 50 {
			t.Errorf("%s: rounds by the minute %v", name, minute)
		}
	}
}

// Who wants to know of a switch is told when the routes have been set, whether or not
// that failed.
func TestSwitchedComesAfterTheRoutes(t *testing.T) {
	var stood, told atomic.Int32
	m := play(t, 3*time.Minute, func(m *machine, r *Runner) {
		m.answer = func(u, _ int, t time.Duration) bool { return u == 1 || t < time.Minute }
		m.fail = func(t time.Duration) error {
			if t > time.Minute {
				return errors.New("no rights")
			}
			return nil
		}
		r.Switched = func(e failover.Event) {
			m.mu.Lock()
			defer m.mu.Unlock()
			if e.Uplink == "leo" && m.active == 0 {
				stood.Add(1)
			}
			told.Add(1)
		}
	})
	if stood.Load() != 1 || told.Load() != 2 {
		t.Errorf("told %d times, %q", told.Load(), m.said)
	}
}

// What a loop returns is what the next one may go on from.
func TestRunReturnsTheState(t *testing.T) {
	var last failover.State
	play(t, 2*time.Minute, func(m *machine, r *Runner) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // of the bubble
		defer cancel()
		last = r.Run(ctx, r.Config.New(r.Now()))
	})
	if last.Active != 0 || last.Health[0].Rounds < 50 {
		t.Errorf("%+v", last)
	}
}

package edge

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"trafficup/internal/failover"
)

// step is one that leaves something behind: the kernel's routes, or what is saved.
type step struct {
	saved  bool // else the routes stand
	active int
}

// fragile is a machine on which the loop is killed: what it does after so many
// steps leaves nothing behind.
type fragile struct {
	start  time.Time
	dead   func(uplink int, t time.Duration) bool
	left   int // steps until it is killed
	kill   context.CancelFunc
	kernel int
	disk   failover.State
	steps  []step
	told   []string
}

func (m *fragile) Look(int) (Link, error) { return Link{}, nil }
func (m *fragile) Changed()               {}
func (m *fragile) Cut() error             { return nil }

func (m *fragile) does(s step, do func()) {
	if m.left--; m.left < 0 {
		m.kill()
		return
	}
	m.steps = append(m.steps, s)
	do()
}

func (m *fragile) Stand(active int) (string, error) {
	m.does(step{false, active}, func() {
		if active >= 0 {
			m.kernel = active
		}
	})
	return "", nil
}

func (m *fragile) probe(ctx context.Context, uplink, _ int) (failover.Answer, bool) {
	if !m.dead(uplink, time.Since(m.start)) {
		return failover.Answer{OK: true, RTT: time.Millisecond}, true
	}
	<-ctx.Done()
	return failover.Answer{Why: "no answer"}, true
}

// run is a life of the loop, of so many steps at most.
func (m *fragile) run(t *testing.T, steps int, span time.Duration) {
	rules, err := failover.Preset("leo")
	if err != nil {
		t.Fatal(err)
	}
	var ctx context.Context
	ctx, m.kill = context.WithTimeout(t.Context(), span)
	defer m.kill()
	m.left = steps
	r := &Runner{
		Config:  failover.Config{Uplinks: []failover.Uplink{{Name: "leo"}, {Name: "lte"}}, Rules: rules},
		Targets: []Target{{Name: "a", Class: "ping"}}, Quorum: 1, Kernel: m, Probe: m.probe,
		Now:   func() failover.Now { return failover.Now{Boot: time.Since(m.start), Wall: time.Now()} },
		Tell:  func(h Happening) { m.told = append(m.told, h.What+" "+h.Uplink) },
		Alive: func() {},
		Save: func(s failover.State) error {
			m.does(step{true, s.Active}, func() { m.disk = s })
			return nil
		},
	}
	if m.disk.Health == nil {
		m.disk = r.Config.New(r.Now())
	}
	r.Run(ctx, m.disk)
}

// Whichever step is the last one before it is killed, the next start goes on: from
// an uplink that was left for being dead it never goes back to that.
func TestKilledAtEveryStep(t *testing.T) {
	for n := range 40 {
		synctest.Test(t, func(t *testing.T) {
			m := &fragile{start: time.Now(), kernel: -1, dead: func(u int, t time.Duration) bool { return u == 0 && t > 30*time.Second }}
			m.run(t, n, time.Minute)
			kernel, steps := m.kernel, len(m.steps)
			m.run(t, 1000, 2*time.Minute)
			if m.kernel != 1 || m.disk.Active != 1 {
				t.Errorf("after %d steps: %d carries, and %d is saved: %v", n, m.kernel, m.disk.Active, m.steps)
			}
			if kernel == 1 && slices.Contains(m.steps[steps:], step{false, 0}) {
				t.Errorf("after %d steps it goes back to what is dead: %v", n, m.steps)
			}
		})
	}
}

// What is decided by what was remembered is told, as any other decision.
func TestFirstDecisionIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &fragile{start: time.Now(), kernel: 1, dead: func(int, time.Duration) bool { return false }}
		h := failover.Health{Verdict: failover.Up, Good: 100, LastGood: 1}
		m.disk = failover.State{Active: 1, Since: -time.Hour, Forced: failover.Forced{Uplink: 1, Until: 5 * time.Second, Why: "a drill"}, Health: []failover.Health{h, h}}
		time.Sleep(10 * time.Second)
		m.run(t, 1000, 10*time.Second)
		if want := []string{"forced lte", "switch leo"}; !slices.Equal(m.told, want) || m.kernel != 0 || m.disk.Active != 0 {
			t.Errorf("told %q, want %q; %d carries", m.told, want, m.kernel)
		}
	})
}

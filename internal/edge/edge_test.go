package edge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"trafficup/internal/failover"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// machine is one in a test. What its targets answer is a function of time.
type machine struct {
	t       *testing.T
	start   time.Time
	answer  func(uplink, target int, t time.Duration) bool
	gone    func(uplink int) string
	fail    func(t time.Duration) error
	cutting func(t time.Duration) // nil: nobody looks

	mu      sync.Mutex
	active  int // as the kernel has it
	stood   int
	changed int // times that it heard so; of the loop alone
	said    []string
	asked   map[[2]int]int
	saved   failover.State
}

func (m *machine) since() time.Duration { return time.Since(m.start) }

func (m *machine) Look(uplink int) (Link, error) { return Link{Gone: m.gone(uplink)}, nil }

func (m *machine) Stand(active int) (changed string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stood++
	if err := m.fail(m.since()); err != nil {
		return "", err
	}
	if m.active != active {
		changed = fmt.Sprintf("%d is active", active)
	}
	m.active = active
	return changed, nil
}

func (m *machine) Changed() { m.changed++ }

func (m *machine) Cut() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cutting != nil {
		m.cutting(m.since())
	}
	return nil
}

func (m *machine) probe(ctx context.Context, uplink, target int) (failover.Answer, bool) {
	m.mu.Lock()
	m.asked[[2]int{uplink, target}]++
	m.mu.Unlock()
	if m.answer(uplink, target, m.since()) {
		time.Sleep(40 * time.Millisecond)
		return failover.Answer{OK: true, RTT: 40 * time.Millisecond}, true
	}
	<-ctx.Done()
	return failover.Answer{Why: "no answer"}, true
}

// play runs the loop for so long and returns what the machine saw.
func play(t *testing.T, span time.Duration, change func(*machine, *Runner)) *machine {
	m := &machine{t: t, active: -1, asked: map[[2]int]int{},
		answer: func(int, int, time.Duration) bool { return true }, gone: func(int) string { return "" }, fail: func(time.Duration) error { return nil },
	}
	synctest.Test(t, func(t *testing.T) {
		m.start = time.Now()
		rules, err := failover.Preset("leo")
		if err != nil {
			t.Fatal(err)
		}
		r := &Runner{
			Config: failover.Config{Uplinks: []failover.Uplink{{Name: "leo"}, {Name: "lte", Metered: true}}, Rules: rules},
			Targets: []Target{{Name: "a", Class: "ping"}, {Name: "b", Class: "ping"},
				{Name: "c", Class: "connect", Every: 2 * time.Second, Metered: 10 * time.Second, Seldom: 10 * time.Minute}, {Name: "d", Class: "connect", Every: 2 * time.Second, Metered: 10 * time.Second, Seldom: 10 * time.Minute}},
			Quorum: 2, Kernel: m, Probe: m.probe,
			Now: func() failover.Now { return failover.Now{Boot: m.since(), Wall: time.Now()} },
			Tell: func(h Happening) {
				if h.What != failover.EventVerdict {
					m.said = append(m.said, fmt.Sprintf("%v %s %s", m.since().Round(time.Second), h.What, h.Uplink))
				}
			},
			Save:  func(s failover.State) error { m.saved = s; return nil },
			Alive: func() {},
		}
		change(m, r)
		ctx, cancel := context.WithTimeout(t.Context(), span)
		defer cancel()
		r.Run(ctx, r.Config.New(r.Now()))
	})
	return m
}

func (m *machine) want(t *testing.T, said ...string) {
	t.Helper()
	if !slices.Equal(m.said, said) {
		t.Errorf("said\n%s\nwant\n%s", strings.Join(m.said, "\n"), strings.Join(said, "\n"))
	}
}

func TestOutage(t *testing.T) {
	m := play(t, 10*time.Minute, func(m *machine, r *Runner) {
		m.answer = func(u, _ int, t time.Duration) bool { return u == 1 || t < 100*time.Second || t > 200*time.Second }
	})
	m.want(t, "2s switch leo", "2s routes ", "1m52s switch lte", "1m52s routes ", "4m21s switch leo", "4m21s routes ")
	if m.active != 0 || m.saved.Active != 0 {
		t.Errorf("%d is active, and %d saved", m.active, m.saved.Active)
	}
}

// One target of a class that is dead, by all uplinks, changes nothing; a class that
// is dead by one uplink does.
func TestTargetsAndClasses(t *testing.T) {
	m := play(t, 5*time.Minute, func(m *machine, _ *Runner) {
		m.answer = func(u, target int, _ time.Duration) bool { return target != 0 && target != 3 }
	})
	m.want(t, "2s switch leo", "2s routes ")
	m = play(t, 3*time.Minute, func(m *machine, _ *Runner) {
		m.answer = func(u, target int, t time.Duration) bool { return u == 1 || target < 2 || t < time.Minute }
	})
	if len(m.said) != 4 || !strings.HasSuffix(m.said[2], "switch lte") {
		t.Errorf("%q", m.said)
	}
}

func TestMeteredIsAskedSeldom(t *testing.T) {
	m := play(t, time.Hour, func(*machine, *Runner) {})
	if n := m.asked[[2]int{1, 0}]; n < 115 || n > 125 {
		t.Errorf("%d pings by the metered uplink in an hour", n)
	}
	if n := m.asked[[2]int{1, 2}]; n < 6 || n > 9 {
		t.Errorf("%d connections by the metered uplink in an hour", n)
	}
	if n := m.asked[[2]int{0, 2}]; n < 1780 || n > 1820 {
		t.Errorf("%d connections by the active uplink in an hour", n)
	}
}

// A machine that is late each time looks as often all the same, and sees an outage as soon.
func TestSlowMachine(t *testing.T) {
	m := play(t, 10*time.Minute, func(m *machine, r *Runner) {
		now := r.Now
		r.Now = func() failover.Now { time.Sleep(20 * time.Millisecond); return now() }
		m.answer = func(u, _ int, t time.Duration) bool { return u == 1 || t < 100*time.Second || t > 200*time.Second }
	})
	if len(m.said) != 6 || !strings.HasPrefix(m.said[2], "1m52s switch lte") {
		t.Errorf("%q", m.said)
	}
	if n := m.asked[[2]int{0, 0}]; n < 599 || n > 602 {
		t.Errorf("%d pings in 10 min", n)
	}
}

// What the kernel lost is put back, when it says so and else within ten seconds.
func TestReconciles(t *testing.T) {
	m := play(t, 2*time.Minute, func(m *machine, r *Runner) {
		events := make(chan struct{}, 1) // of the bubble
		r.Events = events
		time.AfterFunc(30500*time.Millisecond, func() {
			m.mu.Lock()
			m.active = 7
			m.mu.Unlock()
			events <- struct{}{}
		})
		time.AfterFunc(70500*time.Millisecond, func() {
			m.mu.Lock()
			m.active = 7
			m.mu.Unlock()
		})
	})
	if m.changed != 1 {
		t.Errorf("after one event the kernel was read anew %d times", m.changed)
	}
	if len(m.said) != 4 || m.said[2] != "31s routes " || !strings.HasSuffix(m.said[3], " routes ") || m.active != 0 {
		t.Errorf("%q", m.said)
	}
	if at, _ := time.ParseDuration(strings.Fields(m.said[3])[0]); at > 82*time.Second {
		t.Errorf("put back at %v", at)
	}
}

// However many changes the kernel tells of, it is asked four times a second at most; and one
// that tells no more is not listened to, which is told.
func TestFloodOfEvents(t *testing.T) {
	for name, flood := range map[string]func(events chan struct{}){
		"many": func(events chan struct{}) {
			for range 60_000 {
				select {
				case events <- struct{}{}:
				default:
				}
				time.Sleep(time.Millisecond)
			}
		},
		"closed": func(events chan struct{}) { close(events) },
	} {
		m := play(t, 3*time.Minute, func(m *machine, r *Runner) {
			events := make(chan struct{}, 1) // of the bubble
			r.Events = events
			time.AfterFunc(time.Minute, func() { flood(events) })
		})
		failed := slices.Contains(m.said, "1m0s failed ")
		if m.stood < 18 || m.stood > 265 || failed != (name == "closed") || len(m.said) > 3 {
			t.Errorf("%s: looked at %d times, %q", name, m.stood, m.said)
		}
	}
}

func TestErrorsAreToldOnce(t *testing.T) {
	m := play(t, 2*time.Minute, func(m *machine, r *Runner) {
		m.fail = func(t time.Duration) error {
			if t > 5*time.Second && t < time.Minute {
				return errors.New("no rights")
			}
			return nil
		}
	})
	if n := strings.Count(strings.Join(m.said, "\n"), "failed"); n != 1 || m.stood < 12 {
		t.Errorf("%q, tried %d times", m.said, m.stood)
	}
}

// Who is slow to hear of a switch, and a queue that takes its time, do not hold it up;
// what is told is told in its order.
func TestTheRoutesDoNotWait(t *testing.T) {
	var stood time.Duration
	m := play(t, 3*time.Minute, func(m *machine, r *Runner) {
		m.answer = func(u, _ int, t time.Duration) bool { return u == 1 || t < time.Minute }
		m.fail = func(time.Duration) error {
			if r.Switched != nil && m.saved.Active == 1 && stood == 0 {
				stood = m.since()
			}
			return nil
		}
		r.Switched = func(failover.Event) {}
		tell := r.Tell
		r.Tell = func(h Happening) { tell(h); time.Sleep(2 * time.Second) }
		r.Prepare = func(int) (string, error) { time.Sleep(4 * time.Second); return "", nil }
	})
	at := slices.IndexFunc(m.said, func(s string) bool { return strings.HasSuffix(s, "switch lte") })
	if at < 0 || !strings.HasSuffix(m.said[at+1], "routes ") {
		t.Fatalf("%q", m.said)
	}
	t.Log(stood, m.said)
	if told, _ := time.ParseDuration(strings.Fields(m.said[at])[0]); told-stood < 4*time.Second {
		t.Errorf("the routes stood at %v, and it was told at %v", stood, told)
	}
}

func TestRequests(t *testing.T) {
	m := play(t, 10*time.Minute, func(m *machine, r *Runner) {
		requests := make(chan failover.Forced, 1) // of the bubble
		r.Requests = requests
		time.AfterFunc(time.Minute+time.Millisecond, func() { requests <- failover.Forced{Uplink: 1, Until: r.Now().Boot + 3*time.Minute, Why: "a drill"} })
	})
	m.want(t, "2s switch leo", "2s routes ", "1m0s chosen lte", "1m0s switch lte", "1m0s routes ", "4m0s forced lte", "4m0s switch leo", "4m0s routes ")
}

// Answers that come too late, and a loop that ends, leave nothing behind: goleak.
func TestEndsInTheMiddle(t *testing.T) {
	for _, span := range []time.Duration{time.Millisecond, 500 * time.Millisecond, 7*time.Second + 10*time.Millisecond} {
		play(t, span, func(m *machine, _ *Runner) { m.answer = func(int, int, time.Duration) bool { return false } })
	}
}

// Who takes the routes away again and again is not fought at once each time, and told
// of once; an uplink is left at once all the same.
func TestRoutesAreNotFought(t *testing.T) {
	m := play(t, 3*time.Minute, func(m *machine, r *Runner) {
		events := make(chan struct{}, 1) // of the bubble
		r.Events = events
		m.answer = func(u, _ int, t time.Duration) bool { return u == 1 || t < 2*time.Minute }
		time.AfterFunc(time.Minute, func() {
			for range 300 { // half a minute
				m.mu.Lock()
				m.active = 7
				m.mu.Unlock()
				select {
				case events <- struct{}{}:
				default:
				}
				time.Sleep(100 * time.Millisecond)
			}
		})
	})
	said := strings.Join(m.said, "\n")
	if puts := strings.Count(said, "routes "); puts < 5 || puts > 14 || strings.Count(said, "failed ") != 1 || !strings.Contains(said, "2m12s switch lte") {
		t.Errorf("put back %d times:\n%s", puts, said)
	}
}

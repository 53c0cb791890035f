package edge

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"trafficup/internal/failover"
)

// cron runs the loop at each full minute, each time only as long as is enough and from
// what was saved on, and returns how long each run took.
func cron(t *testing.T, minutes int, answer func(uplink, target int, t time.Duration) bool) (m *machine, last failover.State, took []time.Duration) {
	play(t, time.Duration(minutes)*time.Minute, func(made *machine, r *Runner) {
		m = made
		m.answer = answer
		m.start = time.Now()
		s := r.Config.New(r.Now())
		for range minutes {
			began := r.Now().Boot
			r.Enough = func(s failover.State) bool { return r.Config.Settled(s, began, r.Now()) }
			s = r.Run(context.Background(), s) // t.Context is not of the bubble
			data, err := json.Marshal(s)
			if err != nil {
				t.Fatal(err)
			}
			s = failover.State{}
			if err := json.Unmarshal(data, &s); err != nil {
				t.Fatal(err)
			}
			took = append(took, r.Now().Boot-began)
			time.Sleep(time.Until(m.start.Add((began/time.Minute + 1) * time.Minute)))
		}
		last = s
		r.Enough = func(failover.State) bool { return true } // of the run that play makes
	})
	return m, last, took
}

// A night by cron: the outage is seen by the first run after it began, and what is
// preferred is gone back to when it was good for long enough, after the dwell.
func TestCron(t *testing.T) {
	m, _, took := cron(t, 30, func(u, _ int, t time.Duration) bool {
		return u == 1 || !within(t, 10*time.Minute-5*time.Second, 16*time.Minute-5*time.Second)
	})
	var switches []string
	for _, s := range m.said {
		if !strings.HasSuffix(s, "routes ") {
			switches = append(switches, s)
		}
	}
	want := []string{"2s switch leo", "10m12s switch lte", "17m1s switch leo"}
	if !slices.Equal(switches, want) {
		t.Errorf("%q, want %q", switches, want)
	}
	for minute, d := range took {
		quiet := minute > 0 && minute < 10 || minute > 17
		if d > 29*time.Second || quiet && d > time.Second || d == 0 {
			t.Errorf("run %d took %v", minute, d)
		}
	}
	t.Log(took)
}

// Where nothing answers a run comes to an end, does nothing, and does not hinder the
// one that finds something.
func TestCronAllDown(t *testing.T) {
	m, last, took := cron(t, 10, func(u, _ int, t time.Duration) bool { return u == 1 && t > 5*time.Minute-30*time.Second })
	if len(m.said) < 2 || m.said[0] != "15s all-down " && m.said[0] != "12s all-down " || last.Active != 1 || !slices.Contains(m.said, "5m2s routes ") {
		t.Errorf("%q, %d is active", m.said, last.Active)
	}
	for minute, d := range took {
		if d > 29*time.Second || minute > 0 && minute < 5 && d > 3*time.Second {
			t.Errorf("run %d took %v", minute, d)
		}
	}
	t.Log(m.said, took)
}

func within(t, from, to time.Duration) bool { return t >= from && t < to }

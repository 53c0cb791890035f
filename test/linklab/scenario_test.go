package linklab

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestNetem(t *testing.T) {
	for _, c := range []struct {
		p    Profile
		out  bool
		want string
	}{
		{Far, false, "netem delay 115000us"},
		{FarLossy, false, "netem delay 115000us loss 1.0000%"},
		{Cellular, false, "netem delay 40000us rate 5mbit"},
		{LEO, false, "netem delay 22500us 7500us loss gemodel 0.2525% 25.0000%"},
		{LEO, true, "netem delay 22500us 7500us loss 100%"},
		{Maintenance, true, "netem delay 115000us loss 100%"},
	} {
		if got := strings.Join(c.p.Netem(c.out), " "); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestMaintenanceIsUp20sDown10s(t *testing.T) {
	for n := range 3 {
		from, to, ok := Maintenance.Outages.Next(n, 0.99, 0.5)
		period := time.Duration(n) * 30 * time.Second
		if !ok || from != period+20*time.Second || to != period+30*time.Second {
			t.Errorf("outage %d from %s to %s (%t)", n, from, to, ok)
		}
	}
}

// Outages keep to their periods, last as long as they may, and are as frequent
// as said.
func TestOutages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := Outages{Every: 15 * time.Second, Share: rapid.Float64Range(0, 1).Draw(t, "share"), Min: time.Second, Max: 3 * time.Second}
		n := rapid.IntRange(0, 1000).Draw(t, "period")
		u, v := rapid.Float64Range(0, 0.999).Draw(t, "u"), rapid.Float64Range(0, 0.999).Draw(t, "v")
		from, to, ok := o.Next(n, u, v)
		if ok != (u < o.Share) || to != time.Duration(n+1)*o.Every || to-from < o.Min || to-from > o.Max {
			t.Fatalf("from %s to %s (%t)", from, to, ok)
		}
	})
}

func TestSteadyLeavesOutTheEnds(t *testing.T) {
	var ends []time.Duration
	for i := range 1000 {
		at := time.Duration(i) * 10 * time.Millisecond
		if i >= 800 {
			at += time.Minute // a last record that waited long
		}
		ends = append(ends, at)
	}
	if got := Steady(ends, 8); math.Abs(got-100) > 0.01 {
		t.Errorf("got %.2f/s, want 100", got)
	}
	if got := Steady(ends[:99], 8); got != 0 {
		t.Errorf("got %.2f/s of 99 records, want 0", got)
	}
	if got := Steady(make([]time.Duration, 200), 8); got != 0 {
		t.Errorf("got %.2f/s of no time, want 0", got)
	}
}

func TestPerSecond(t *testing.T) {
	got := PerSecond([]time.Duration{0, time.Second - 1, time.Second, 4 * time.Second})
	if want := []int{2, 1, 0, 0, 1}; !slices.Equal(got, want) {
		t.Errorf("got %d, want %d", got, want)
	}
}

func TestScenarios(t *testing.T) {
	names := map[string]bool{}
	for _, s := range Scenarios() {
		if names[s.Name] {
			t.Errorf("two scenarios %s", s.Name)
		}
		names[s.Name] = true
		if s.Ideal() > 400 || s.Lasts() > 3*time.Minute {
			t.Errorf("%s: %.0f records per second for %s are too much for a guest", s.Name, s.Ideal(), s.Lasts())
		}
	}
	if got := Scenarios()[0].Ideal(); math.Abs(got-34.78) > 0.01 {
		t.Errorf("8 requests in 230 ms are ideally %.2f/s, want 34.78", got)
	}
}

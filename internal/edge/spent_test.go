package edge

import (
	"context"
	"testing"
	"time"

	"trafficup/internal/failover"
)

// What the standby costs that is paid for, by targets as they are proposed: two pings,
// two connections. The bytes are what the probes' own tests measure.
func TestSpentOnMeteredStandby(t *testing.T) {
	const ping, connection = 2 * (20 + 8 + 8), 60 + 60 + 52 + 40
	var spending *Spending
	play(t, 6*time.Hour, func(m *machine, r *Runner) {
		spending = NewSpending(Report{}, "boot")
		probe := r.Probe
		r.Probe = withBytes(probe, func(target int) int {
			if target < 2 {
				return ping
			}
			return connection
		})
		r.Spent = func(uplink, bytes int) { spending.Add(r.Config.Uplinks[uplink].Name, bytes, time.Now().UTC()) }
	})
	r := Report{Uplinks: []Standing{{Name: "leo"}, {Name: "lte"}}}
	spending.Report(&r)
	leo, lte := r.Uplinks[0].Probes, r.Uplinks[1].Probes
	t.Logf("in a quarter of a day: leo %d bytes, lte %d bytes, %d a day", leo.Boot, lte.Boot, lte.PerDay)
	if day := 4 * lte.Boot; day < 300_000 || day > 1_000_000 {
		t.Errorf("the metered standby takes %d bytes a day", day)
	}
	if lte.PerDay < 4*lte.Boot*95/100 || lte.PerDay > 4*lte.Boot*105/100 {
		t.Errorf("%d a day are foreseen, it took %d", lte.PerDay, lte.Boot)
	}
}

func withBytes(p Probe, bytes func(target int) int) Probe {
	return func(ctx context.Context, uplink, target int) (failover.Answer, bool) {
		a, ok := p(ctx, uplink, target)
		a.Bytes = bytes(target)
		return a, ok
	}
}

// A day is one of the calendar, and of this boot.
func TestSpentDays(t *testing.T) {
	at := func(day, hour, minute int) time.Time { return time.Date(2026, 3, day, hour, minute, 0, 0, time.UTC) }
	s := Spent{}.add(100, at(1, 23, 0))
	if s.Today != 100 || s.PerDay != 0 {
		t.Errorf("%+v", s)
	}
	s = s.add(100, at(1, 23, 30))
	if s.Today != 200 || s.PerDay != 200*48 {
		t.Errorf("%+v", s)
	}
	s = s.add(50, at(2, 12, 0))
	if s.Today != 50 || s.Boot != 250 || s.PerDay != 100 || !s.Since.Equal(at(2, 0, 0)) {
		t.Errorf("%+v", s)
	}
	s = s.add(1, at(1, 0, 0)) // the clock was set back
	if s.Today != 1 || s.Boot != 251 {
		t.Errorf("%+v", s)
	}
	r := Report{Boot: "a", Uplinks: []Standing{{Name: "lte", Probes: s}}}
	again, other := r, r
	again.Uplinks, other.Uplinks = []Standing{{Name: "lte"}}, []Standing{{Name: "lte"}}
	NewSpending(r, "a").Report(&again)
	NewSpending(r, "b").Report(&other)
	if again.Uplinks[0].Probes != s || other.Uplinks[0].Probes != (Spent{}) {
		t.Errorf("%+v, %+v", again, other)
	}
}

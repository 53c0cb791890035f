package breaker

import (
	"encoding/json/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestLastHour(t *testing.T) {
	at := func(ago ...time.Duration) (c Changes) {
		for _, d := range slices.Backward(ago) {
			c = c.with(t0.Add(-d))
		}
		return c
	}
	for name, c := range map[string]struct {
		changes  Changes
		n        int
		thrashes bool
	}{
		"none":                   {Changes{}, 0, false},
		"an hour":                {at(0, time.Hour-1, time.Hour), 2, false},
		"six":                    {at(1, 2, 3, 4, 5, 6), 6, false},
		"seven":                  {at(1, 2, 3, 4, 5, 6, 7), 7, true},
		"the clock was set back": {at(-3, -2, -1, 1, 2, 3, 4, 5, 6), 6, false},
		"more than are kept":     {at(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), 12, true},
	} {
		if n, thrashes := c.changes.LastHour(t0), c.changes.Thrashing(t0); n != c.n || thrashes != c.thrashes {
			t.Errorf("%s: %d, %v", name, n, thrashes)
		}
	}
}

// A path that comes back with every probe and fails again at once: from the
// seventh change in an hour on it is left alone for longer, up to OpenMax, and
// an hour later no more than at first.
func TestThrashingIsLeftAloneForLonger(t *testing.T) {
	cfg := testCfg
	cfg.Jitter = 0
	s, now := State{}, t0
	flap := func() (open time.Duration) {
		for range cfg.Threshold {
			s = cfg.Record(s, s.Generation, Fail, now, 0)
		}
		open = s.OpenUntil.Sub(now)
		now = s.OpenUntil
		s, _, _ = cfg.Allow(s, now, 0)
		s = cfg.Record(s, s.Generation, OK, now, 0)
		return open
	}
	var opens []time.Duration
	for range 7 {
		opens = append(opens, flap()/time.Second)
	}
	if want := []time.Duration{30, 30, 30, 60, 240, 300, 300}; !slices.Equal(opens, want) {
		t.Errorf("open for %d s, want %d", opens, want)
	}
	now = now.Add(time.Hour)
	if d := flap(); d != cfg.Open {
		t.Errorf("open for %s an hour later", d)
	}
}

// However often it changed, the open time keeps its promises.
func TestOpenTimeWhileThrashing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anyState(t)
		s.Phase, s.Force, s.Failures, s.FirstFailure = Closed, Force{}, testCfg.Threshold-1, t0
		next := testCfg.Record(s, s.Generation, Fail, t0, rapid.Float64Range(0, 1).Draw(t, "u"))
		full := testCfg.Open
		for range testCfg.sane(s, t0).Opens + max(0, next.Changes.LastHour(t0)-6) {
			full = min(2*full, testCfg.OpenMax)
		}
		if d := next.OpenUntil.Sub(t0); next.Phase != Open || d > full || d < full*8/10 {
			t.Fatalf("open for %s, full %s: %+v", d, full, next)
		}
	})
}

// States as other programs, and other versions of this one, write them.
func TestReadsStatesOfOthers(t *testing.T) {
	at := time.Date(2026, 7, 17, 0, 5, 12, 0, time.UTC)
	for in, want := range map[string]State{
		`{}`: {},
		`{"phase":2,"open_until":"2026-07-17T00:05:12Z","opens":1,"generation":3,"transitions":{"open":1}}`: {
			Phase: Open, OpenUntil: at, Opens: 1, Generation: 3, Transitions: Transitions{Open: 1}},
		`{"since":"2026-07-17T02:05:12+02:00","changes":["2026-07-16T20:05:12-04:00"],"force":{"phase":0,"until":"2026-07-17T00:05:12-00:00"}}`: {
			Since: at, Changes: Changes{at}, Force: Force{Until: at}},
		`{"since":"0000-01-01T00:00:00+14:00","open_until":"9999-12-31T23:59:59-14:00","changes":["0000-01-01T00:00:00+14:00","2026-07-17T00:05:12Z"]}`: {Changes: Changes{at}},
		`{"changes":[],"later":{"x":1}}`: {},
		`{"changes":["2026-07-17T00:05:12Z","2026-07-17T00:05:12Z","2026-07-17T00:05:12Z","2026-07-17T00:05:12Z","2026-07-17T00:05:12Z","2026-07-17T00:05:12Z","2026-07-17T00:05:12Z",
			"2026-07-17T00:05:12Z","2026-07-17T00:05:12Z","2026-07-17T00:05:12Z","2026-07-17T00:05:12Z","2026-07-17T00:05:12Z","2026-07-17T00:05:13Z"]}`: {Changes: Changes{at, at, at, at, at, at, at, at, at, at, at, at}},
	} {
		got := State{Failures: 9}
		if err := json.Unmarshal([]byte(in), &got); err != nil || got != want {
			t.Errorf("%s: %+v, %v", in, got, err)
		}
		if _, err := json.Marshal(got); err != nil {
			t.Error(err)
		}
	}
	for _, in := range []string{`{"changes":{}}`, `{"changes":["soon"]}`, `{"force":[]}`, `{"force":{"until":"soon"}}`} {
		if err := json.Unmarshal([]byte(in), new(State)); err == nil {
			t.Errorf("%s is read", in)
		}
	}
}

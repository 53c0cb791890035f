package uplink

import (
	"slices"
	"testing"
	"time"
)

var t0 = time.Date(2026, 7, 17, 0, 0, 0, 0, time.UTC)

// seen plays attempts, one after each step, and returns the link and the time of
// the last.
func seen(l link, now time.Time, n int, step time.Duration, a Attempt) (link, time.Time) {
	for range n {
		now = now.Add(step)
		l = l.saw(now, a)
	}
	return l, now
}

func TestFaultsOfTheMachineItself(t *testing.T) {
	own, silent, answered := Attempt{Own: true}, Attempt{}, Attempt{Answered: true}
	for name, tt := range map[string]struct {
		attempts []Attempt
		bad      bool
	}{
		"nothing yet":                 {nil, false},
		"the first":                   {[]Attempt{own}, true},
		"after answers":               {[]Attempt{answered, answered, own}, true},
		"ended by one answer":         {[]Attempt{own, own, answered}, false},
		"not ended by silence":        {[]Attempt{own, silent, silent}, true},
		"silence alone":               {[]Attempt{silent, silent, silent}, false},
		"silence after the answer":    {[]Attempt{own, answered, silent}, false},
		"answered after all, somehow": {[]Attempt{{Own: true, Answered: true}}, false},
	} {
		var l link
		for _, a := range tt.attempts {
			l = l.saw(t0, a)
		}
		if why := l.fault(t0); (why != "") != tt.bad {
			t.Errorf("%s: %q", name, why)
		}
		if why := l.fault(t0.Add(remember)); why != "" {
			t.Errorf("%s: remembered for ever: %q", name, why)
		}
	}
}

func TestLoss(t *testing.T) {
	clean, some := Attempt{Answered: true, Segments: 10}, Attempt{Answered: true, Segments: 10, Lost: 1}
	type part struct {
		n    int
		step time.Duration
		a    Attempt
	}
	second, minute := time.Second, time.Minute
	for name, tt := range map[string]struct {
		parts []part
		bad   bool
	}{
		"a tenth, in 30 s":              {[]part{{30, second, some}}, true},
		"a tenth, fast":                 {[]part{{900, 10 * time.Millisecond, some}}, true},
		"less than a tenth":             {[]part{{20, second, some}, {1, second, clean}}, false},
		"199 segments":                  {[]part{{19, second, some}, {1, second, Attempt{Answered: true, Segments: 9, Lost: 5}}}, false},
		"200 segments":                  {[]part{{20, second, some}}, true},
		"200 segments, in a minute":     {[]part{{20, 3 * second, some}}, false},
		"195 segments in 30 s":          {[]part{{40, 2 * second, Attempt{Answered: true, Segments: 13, Lost: 2}}}, false},
		"less than 8 s":                 {[]part{{780, 10 * time.Millisecond, some}}, false},
		"just 8 s":                      {[]part{{801, 10 * time.Millisecond, some}}, true},
		"unanswered":                    {[]part{{900, 10 * time.Millisecond, Attempt{Segments: 10, Lost: 9}}}, false},
		"a server that died":            {[]part{{30, second, clean}, {30, second, Attempt{Segments: 10, Lost: 9}}}, false},
		"a server that stood still":     {[]part{{60, 500 * time.Millisecond, clean}, {1, 5 * second, clean}, {16, time.Millisecond, Attempt{Answered: true, Segments: 5, Lost: 4}}}, false},
		"and goes on":                   {[]part{{60, 500 * time.Millisecond, clean}, {16, time.Millisecond, Attempt{Answered: true, Segments: 5, Lost: 4}}, {60, 500 * time.Millisecond, clean}}, false},
		"only handshakes sent again":    {[]part{{30, second, Attempt{Answered: true, Lost: 3}}}, false},
		"more handshakes than segments": {[]part{{30, second, clean}, {1, second, Attempt{Answered: true, Segments: 1, Lost: 1000}}}, false},
		"many such handshakes":          {slices.Repeat([]part{{1, second, Attempt{Answered: true, Segments: 50}}, {1, second, Attempt{Answered: true, Segments: 1, Lost: 100}}}, 15), false},
		"begins after a clean night":    {[]part{{100000, 10 * time.Millisecond, clean}, {20, second, Attempt{Answered: true, Segments: 10, Lost: 4}}}, true},
		"ends":                          {[]part{{30, second, some}, {1200, 10 * time.Millisecond, clean}}, false},
		"nothing answered since":        {[]part{{30, second, some}, {5, minute, Attempt{}}}, true},
		"first answers since":           {[]part{{30, second, some}, {5, minute, Attempt{}}, {1, second, clean}}, false},
		"long ago":                      {[]part{{30, second, some}, {10, minute, Attempt{}}}, false},
	} {
		var l link
		now := t0
		for _, p := range tt.parts {
			l, now = seen(l, now, p.n, p.step, p.a)
		}
		if why := l.fault(now); (why != "") != tt.bad {
			t.Errorf("%s: %q, %+v", name, why, l.slices)
		}
	}
}

func TestWordsOfLoss(t *testing.T) {
	l, now := seen(link{}, t0, 30, time.Second, Attempt{Answered: true, Segments: 10, Lost: 3})
	if got, want := l.fault(now), "30 % of the last 200 segments lost"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

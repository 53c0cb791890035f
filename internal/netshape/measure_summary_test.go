package netshape

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const ms = time.Millisecond

// steady is what is taken of a link that carries rate (bit/s) for some seconds.
func steady(seconds int, rate uint64, idle, loaded []time.Duration) (t taken) {
	t.idle = idle
	for at := time.Duration(0); at <= time.Duration(seconds)*time.Second; at += countEvery {
		n := uint64(at.Seconds() * float64(rate) / 8)
		t.counts = append(t.counts, count{at, n})
		t.bytes = n
		t.loaded = append(t.loaded, moment{at, loaded[len(t.loaded)%len(loaded)]})
	}
	return t
}

func TestSummarize(t *testing.T) {
	cable, leo, lte, geo := []time.Duration{20 * ms, 21 * ms, 20 * ms}, []time.Duration{40 * ms, 46 * ms, 41 * ms}, []time.Duration{50 * ms, 70 * ms, 48 * ms}, []time.Duration{600 * ms, 610 * ms, 601 * ms}
	shaped := steady(10, 8.6e6, leo, leo)
	shaped.shaped = 9e6
	walking := steady(10, 10e6, leo, []time.Duration{400 * ms})
	for i := range walking.counts[20:] { // from the fifth second on half of it
		walking.counts[20+i].bytes = walking.counts[19].bytes + uint64(i)*5e6/8/4
	}
	near := steady(10, 10e6, leo, leo)
	near.near = "10.7.1.1:443"
	spent := steady(4, 10e6, leo, []time.Duration{400 * ms})
	spent.spent = true
	for name, tt := range map[string]struct {
		taken    taken
		proposed uint64
		profile  string
		bloat    time.Duration
		note     string // "": none
	}{
		"leo":           {steady(10, 10e6, leo, []time.Duration{400 * ms}), 9e6, "leo", 354 * ms, ""},
		"lte":           {steady(10, 5e6, lte, []time.Duration{900 * ms}), 4.5e6, "lte", 830 * ms, ""},
		"geo":           {steady(10, 3e6, geo, []time.Duration{2 * time.Second}), 2.7e6, "geo", 1390 * ms, ""},
		"a cable":       {steady(10, 12345678, cable, []time.Duration{200 * ms}), 11.1e6, "", 179 * ms, ""},
		"without bloat": {steady(10, 10e6, cable, cable), 9e6, "", 0, "not the uplink but the sink"},
		"our own rate":  {shaped, 0, "leo", 0, "shaped to 9mbit"},
		"walking":       {walking, 4.5e6, "leo", 354 * ms, ""},
		"losses":        {steady(10, 10e6, leo, []time.Duration{400 * ms, 0}), 9e6, "leo", 354 * ms, "of the probes under load had no answer"},
		"all lost":      {steady(10, 10e6, leo, []time.Duration{0}), 9e6, "leo", 0, "no probe was answered under load"},
		"near":          {near, 9e6, "leo", 0, "the target 10.7.1.1:443 is in the uplink's own network"},
		"short":         {steady(3, 10e6, leo, []time.Duration{400 * ms}), 9e6, "leo", 354 * ms, "only 1s of the load count"},
		"no bloat, far": {steady(10, 10e6, cable, cable), 9e6, "", 0, "or the target is before it, as the modem itself is"},
		"spent":         {spent, 9e6, "leo", 354 * ms, "ended early"},
	} {
		m, err := tt.taken.summarize()
		if notes := strings.Join(m.Notes, "\n"); err != nil || m.Proposed != tt.proposed || m.Profile != tt.profile || m.Bloat.Duration != tt.bloat || !strings.Contains(notes, tt.note) || (notes == "") != (tt.note == "") {
			t.Errorf("%s: %+v, %v", name, m, err)
		}
	}
}

// Where a quarter of the seconds is slow, these count.
func TestSummarizeSlowQuarter(t *testing.T) {
	s := steady(20, 10e6, []time.Duration{40 * ms}, []time.Duration{400 * ms})
	for i := range s.counts[60:] {
		s.counts[60+i].bytes = s.counts[59].bytes + uint64(i)*4e6/8/4
	}
	if m, err := s.summarize(); err != nil || m.Rate != 10e6 || m.Slow != 4e6 || m.Proposed != 4e6 || !strings.Contains(strings.Join(m.Notes, ""), "the rate varies") {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestSummarizeTooLittle(t *testing.T) {
	leo := []time.Duration{40 * ms}
	if _, err := steady(2, 10e6, leo, leo).summarize(); !errors.Is(err, ErrTooShort) || !strings.Contains(err.Error(), "3s are needed") {
		t.Error(err)
	}
	if _, err := steady(4, 10e6, []time.Duration{600 * ms}, leo).summarize(); !errors.Is(err, ErrTooShort) {
		t.Error("a far link needs longer:", err)
	}
	if _, err := steady(10, 7000, leo, leo).summarize(); err == nil || !strings.Contains(err.Error(), "too little") {
		t.Error(err)
	}
}

// What is proposed is a rate that Parse takes, below what was measured, and longer
// delays under load never make it larger or the bloat smaller.
func TestSummarizeBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		idle := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) time.Duration { return time.Duration(rapid.IntRange(0, 700).Draw(t, "ms")) * ms }), 1, 20).Draw(t, "idle")
		s := steady(12, 0, idle, idle)
		n := uint64(0)
		for i := range s.counts {
			s.counts[i].bytes = n
			n += rapid.Uint64Range(0, 1e6).Draw(t, "bytes")
		}
		m, err := s.summarize()
		if err != nil {
			return
		}
		if p, err := ParseRate(FormatRate(m.Proposed)); err != nil || p != m.Proposed {
			t.Fatal(m.Proposed, err)
		}
		if m.Proposed > m.Rate*9/10+1 || m.Proposed > m.Slow || m.Bloat.Duration < 0 || m.Lost < 0 || m.Lost > 1 {
			t.Fatalf("%+v", m)
		}
		for i := range s.loaded {
			if s.loaded[i].delay > 0 {
				s.loaded[i].delay += time.Second
			}
		}
		if then, err := s.summarize(); err != nil || then.Proposed != m.Proposed || then.Bloat.Duration < m.Bloat.Duration {
			t.Fatalf("%+v, %v", then, err)
		}
	})
}

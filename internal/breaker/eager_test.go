package breaker

import (
	"slices"
	"testing"
	"time"
)

func TestEagerHalvesTheThreshold(t *testing.T) {
	for threshold, want := range map[int]int{1: 1, 2: 1, 3: 2, 8: 4, 9: 5} {
		c := Config{Threshold: threshold, eager: true}
		var s State
		n := 0
		for ; s.Phase == Closed; n++ {
			s = c.Record(s, s.Generation, Fail, t0, 0)
		}
		if n != want {
			t.Errorf("threshold %d: opened after %d failures, want %d", threshold, n, want)
		}
	}
}

func TestEagerIsAskedForEachResult(t *testing.T) {
	begin, end := t0.Add(time.Minute), t0.Add(2*time.Minute)
	var b *Breaker
	b = New(Config{Threshold: 8, Window: time.Hour, Eager: func(now time.Time) bool {
		_ = b.State() // would hang if called under the lock
		return !now.Before(begin) && now.Before(end)
	}}, NewMemory(), "primary", nil)
	fail := func(now time.Time, times int) Phase {
		t.Helper()
		for range times {
			p, _, ok, err := b.Allow(now)
			if !ok || err != nil {
				t.Fatalf("%v, %v", ok, err)
			}
			if err := b.Record(p, Fail, now); err != nil {
				t.Fatal(err)
			}
		}
		return b.State().Phase
	}
	if fail(t0, 7) != Closed {
		t.Fatal("eager before its time")
	}
	p, _, _, _ := b.Allow(begin)
	if err := b.Record(p, Neutral, begin); err != nil || b.State().Failures != 7 {
		t.Fatalf("counted before: %+v, %v", b.State(), err)
	}
	if fail(begin, 1) != Open {
		t.Fatal("not eager in its time")
	}
	b = New(b.cfg, NewMemory(), "primary", nil)
	if fail(begin, 3) != Closed || fail(end, 4) != Closed || fail(end, 1) != Open {
		t.Fatalf("%+v", b.State())
	}
}

// Near a deadline an open breaker is probed when half of what is left has gone by,
// and not more than once in a second.
func TestDeadlineHurriesProbes(t *testing.T) {
	at := func(s int) time.Time { return time.Date(2026, 7, 17, 5, 0, s, 0, time.UTC) }
	cfg := Config{Threshold: 1, Open: 30 * time.Second, OpenMax: 5 * time.Minute, Deadline: at(28)}
	s := cfg.Record(State{}, 0, Fail, at(0), 0)
	var probes []int
	for sec := range 60 {
		next, ok, retryAt := cfg.Allow(s, at(sec), 0)
		if s = next; !ok {
			if !retryAt.After(at(sec)) {
				t.Fatalf("at %d s to be asked again at %s", sec, retryAt)
			}
			continue
		}
		probes = append(probes, sec)
		s = cfg.Record(s, s.Generation, Fail, at(sec), 0)
	}
	// The last one is at the time that the others have, who are in no hurry.
	if want := []int{14, 21, 25, 27, 28, 30}; !slices.Equal(probes, want) {
		t.Errorf("probes at %v, want %v", probes, want)
	}
	// A deadline that is far, or over, changes nothing.
	for _, end := range []int{-1, 120} {
		cfg.Deadline = at(end)
		s := cfg.Record(State{}, 0, Fail, at(0), 0)
		if _, _, retryAt := cfg.Allow(s, at(1), 0); !retryAt.Equal(at(30)) {
			t.Errorf("deadline %d: %s", end, retryAt)
		}
	}
}

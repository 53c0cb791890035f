package breaker

import (
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

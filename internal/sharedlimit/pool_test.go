package sharedlimit

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Whatever leases there are, in any time no more calls go than are due in it or
// may be late into it.
func TestPool(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p pool
		var due, spent []time.Time
		now, added := time.Unix(1e9, 0), 0
		step := func() time.Duration { return time.Duration(rapid.IntRange(0, 300).Draw(t, "ms")) * time.Millisecond }
		for range rapid.IntRange(1, 30).Draw(t, "leases") {
			l := spread(rapid.IntRange(0, 60).Draw(t, "calls"), now.Add(step()-100*time.Millisecond), window, rapid.Float64Range(0, 0.99).Draw(t, "phase"), true)
			for i := range l.n {
				due = append(due, l.first.Add(time.Duration(i)*l.step))
			}
			added += l.n
			p.add(l)
			for range rapid.IntRange(0, 5).Draw(t, "turns") {
				now = now.Add(step())
				for p.take(now) {
					spent = append(spent, now)
				}
			}
		}
		p.earliest(now.Add(time.Hour))
		if len(spent)+p.expired != added {
			t.Fatalf("%d calls, %d spent, %d expired", added, len(spent), p.expired)
		}
		for _, from := range spent {
			for _, d := range []time.Duration{0, 100 * time.Millisecond, time.Second} {
				could, did := 0, 0
				for _, at := range due {
					if !at.Before(from.Add(-window)) && !at.After(from.Add(d)) { // one alone may be late by its step
						could++
					}
				}
				for _, at := range spent {
					if !at.Before(from) && !at.After(from.Add(d)) {
						did++
					}
				}
				if did > could {
					t.Fatalf("%d calls in %s, %d were due", did, d, could)
				}
			}
		}
	})
}

func TestLeases(t *testing.T) {
	t0 := time.Unix(1e9, 0)
	at := func(ms int) time.Time { return t0.Add(time.Duration(ms) * time.Millisecond) }
	p := pool{}
	p.add(spread(5, t0, window, 0.5, false)) // at 25, 75, 125, 175, 225
	p.add(spread(0, t0, window, 0, true))
	p.add(spread(1, at(100), 100*time.Millisecond, 0, true)) // at 100, good for 100
	if p.take(at(24)) || !p.take(at(105)) || p.take(at(74)) {
		t.Error("the call due at 25 goes at 25 to 105")
	}
	p.cut(at(175))
	if before, after := p.unspent(at(105), at(100)); before != 0 || after != 1 {
		t.Errorf("unspent: %d and %d", before, after)
	}
	var got int
	for p.take(at(160)) {
		got++
	}
	if got != 2 || p.expired != 1 || p.earliest(at(160)) != nil {
		t.Errorf("at 160: %d, %d expired", got, p.expired)
	}
	for ms, good := range map[int]bool{-1: false, 0: true, 250: true, 251: false} {
		p := pool{leases: []lease{spread(1, t0, window, 0, true)}}
		if p.take(at(ms)) != good {
			t.Errorf("one call for a window, at %d: %v", ms, !good)
		}
	}
	if l := spread(10, t0, window, 0, true).from(at(101)); l.n != 5 || !l.first.Equal(at(125)) {
		t.Errorf("%+v", l)
	}
	if l := spread(10, t0, window, 0, true).from(at(1000)); l.n != 1 {
		t.Errorf("%+v", l)
	}
}

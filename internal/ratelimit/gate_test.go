package ratelimit

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var t0 = time.Date(2026, 7, 17, 0, 0, 0, 0, time.UTC)

func TestGateZeroValueIsOpen(t *testing.T) {
	var g Gate
	for range 1000 {
		if d := g.Delay(t0, 0.5); d != 0 {
			t.Fatalf("delay %s", d)
		}
	}
}

func TestGateClosedThenSlowStart(t *testing.T) {
	var g Gate
	until := t0.Add(5 * time.Second)
	g.Close(until, t0)
	if d := g.Delay(t0, 0); d != 5*time.Second {
		t.Errorf("delay %s, want 5s", d)
	}
	if d := g.Delay(t0, 0.5); d != 5*time.Second+step/2 {
		t.Errorf("delay %s, want 5.05s", d)
	}
	if d := g.Delay(until.Add(-1), 0); d != 1 {
		t.Errorf("delay %s just before the end", d)
	}
	var released []int
	for i := range slowSteps {
		now := until.Add(time.Duration(i) * step)
		n := 0
		for range 1000 {
			d := g.Delay(now, 0)
			if d == 0 {
				n++
			} else if d != step {
				t.Fatalf("step %d: asked back in %s", i, d)
			}
		}
		released = append(released, n)
	}
	if want := []int{1, 2, 4, 8, 16, 32, 64}; !slices.Equal(released, want) {
		t.Errorf("released %v, want %v", released, want)
	}
	for range 1000 {
		if d := g.Delay(until.Add(slowSteps*step), 0.5); d != 0 {
			t.Fatalf("still delayed by %s", d)
		}
	}
}

func TestGateCrowdThatComesLate(t *testing.T) {
	var g Gate
	g.Close(t0.Add(time.Second), t0)
	late := t0.Add(time.Hour)
	if g.Delay(late, 0) != 0 || g.Delay(late, 0) == 0 {
		t.Error("the slow start has to begin with the first ask")
	}
}

func TestGateClose(t *testing.T) {
	var g Gate
	g.Close(t0, t0)
	g.Close(t0.Add(-time.Hour), t0)
	if d := g.Delay(t0, 0); d != 0 {
		t.Errorf("a time gone by closed the gate for %s", d)
	}
	g.Close(t0.Add(time.Minute), t0)
	g.Close(t0.Add(time.Second), t0)
	if d := g.Delay(t0, 0); d != time.Minute {
		t.Errorf("the pause was changed to %s", d)
	}
	// Closed again in the middle of the slow start: it begins anew.
	now := t0.Add(time.Minute + 3*step)
	g.Delay(now, 0)
	g.Close(now.Add(time.Second), now)
	if d := g.Delay(now, 0); d != time.Second {
		t.Errorf("delay %s, want 1s", d)
	}
	now = now.Add(time.Second)
	if g.Delay(now, 0) != 0 || g.Delay(now, 0) == 0 {
		t.Error("no second slow start")
	}
}

func TestGateHostileTimes(t *testing.T) {
	var g Gate
	g.Close(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), t0)
	for _, u := range []float64{0, 0.999, math.NaN(), math.Inf(1), -1} {
		if d := g.Delay(t0, u); d != math.MaxInt64 {
			t.Errorf("u=%v: delay %d wrapped", u, d)
		}
	}
}

// Whoever asks whenever: nothing passes a closed gate, and in the first n steps
// of the slow start no more than 2^n - 1 pass.
func TestGateNeverReleasesMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var g Gate
		until := t0.Add(time.Second)
		g.Close(until, t0)
		now, first, released := t0, time.Time{}, 0
		for range rapid.IntRange(1, 400).Draw(t, "asks") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(20*time.Millisecond)).Draw(t, "later")))
			d := g.Delay(now, rapid.Float64Range(0, 0.999).Draw(t, "u"))
			if d > 0 {
				continue
			}
			if now.Before(until) {
				t.Fatalf("released %s early", until.Sub(now))
			}
			if first.IsZero() {
				first = now
			}
			released++
			if n := now.Sub(first)/step + 1; n <= slowSteps && released > 1<<n-1 {
				t.Fatalf("%d released in %s", released, now.Sub(first))
			}
		}
	})
}

func TestGateConcurrent(t *testing.T) {
	var g Gate
	g.Close(t0.Add(1), t0)
	var released atomic.Int64
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			if g.Delay(t0.Add(time.Second), 0.3) == 0 {
				released.Add(1)
			}
		})
	}
	wg.Wait()
	if released.Load() != 1 {
		t.Errorf("%d released at the first instant", released.Load())
	}
}

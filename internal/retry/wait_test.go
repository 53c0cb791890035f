package retry

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestWaitCeilingDoublesUpToCap(t *testing.T) {
	p := Policy{Base: 500 * time.Millisecond, Cap: 20 * time.Second}
	half := []time.Duration{250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 10 * time.Second, 10 * time.Second}
	for i, want := range half {
		if got := p.Wait(i+1, 0.5); got != want {
			t.Errorf("Wait(%d, 0.5) = %s, want %s", i+1, got, want)
		}
	}
	for _, n := range []int{62, 63, 64, 1000, math.MaxInt} {
		if got := p.Wait(n, 0.5); got != 10*time.Second {
			t.Errorf("Wait(%d, 0.5) = %s, want half the cap", n, got)
		}
	}
}

func TestWaitOddPolicies(t *testing.T) {
	const maxD = time.Duration(math.MaxInt64)
	for _, c := range []struct {
		name    string
		p       Policy
		attempt int
		u       float64
		want    time.Duration
	}{
		{"zero policy", Policy{}, 3, 0.9, 0},
		{"negative base", Policy{Base: -1, Cap: time.Second}, 3, 0.9, 0},
		{"negative floor", Policy{Base: -1, Cap: -1, Floor: -5}, 3, 0.9, 0},
		{"floor above cap", Policy{Base: 1, Cap: 2, Floor: 3}, 9, 0.9, 3},
		{"attempt below one", Policy{Base: 8, Cap: 64}, -4, 0.5, 4},
		{"largest cap", Policy{Base: 3, Cap: maxD}, 1000, 1, maxD},
		{"u not a number", Policy{Base: 8, Cap: 64, Floor: 1}, 1, math.NaN(), 1},
		{"u too large", Policy{Base: 8, Cap: 64}, 9, math.Inf(1), 64},
		{"u negative", Policy{Base: 8, Cap: 64}, 9, -1, 0},
	} {
		if got := c.p.Wait(c.attempt, c.u); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestWaitBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Policy{
			Base:  time.Duration(rapid.Int64Range(0, math.MaxInt64).Draw(t, "base")),
			Cap:   time.Duration(rapid.Int64Range(0, math.MaxInt64).Draw(t, "cap")),
			Floor: time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "floor")),
		}
		u := rapid.Float64Range(0, 1).Draw(t, "u")
		var before time.Duration
		for n := 1; n <= 1000; n++ {
			d := p.Wait(n, u)
			if d < p.Floor || d > max(p.Floor, p.Cap) {
				t.Fatalf("Wait(%d) = %d outside [%d, %d]", n, d, p.Floor, p.Cap)
			}
			if d < before {
				t.Fatalf("Wait(%d) = %d, less than %d before it", n, d, before)
			}
			before = d
		}
	})
}

func FuzzWait(f *testing.F) {
	f.Add(int64(500e6), int64(20e9), int64(100e6), 63, 0.5)
	f.Add(int64(1), int64(math.MaxInt64), int64(0), 1000, 1.0)
	f.Add(int64(math.MinInt64), int64(math.MinInt64), int64(math.MinInt64), math.MinInt, math.NaN())
	f.Fuzz(func(t *testing.T, base, limit, floor int64, attempt int, u float64) {
		p := Policy{Base: time.Duration(base), Cap: time.Duration(limit), Floor: time.Duration(floor)}
		d := p.Wait(attempt, u)
		if d < 0 || d < p.Floor || d > max(p.Floor, p.Cap, 0) {
			t.Fatalf("%+v.Wait(%d, %v) = %d", p, attempt, u, d)
		}
	})
}

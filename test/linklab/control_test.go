package linklab

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// lumps returns ends of n records: so many requests at once end a little after
// each other, and each begins again.
func lumps(n, atOnce int, took, apart time.Duration) (ends []time.Duration) {
	for i := range n {
		ends = append(ends, time.Duration(i/atOnce+1)*took+time.Duration(i%atOnce)*apart)
	}
	return ends
}

// A rate does not depend on where in a lump the span begins and ends.
func TestSteadyOfLumps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(100, 700).Draw(t, "records")
		took := time.Duration(rapid.IntRange(50, 600).Draw(t, "took")) * time.Millisecond
		apart := took / time.Duration(rapid.IntRange(8, 1000).Draw(t, "part"))
		want := 8 / took.Seconds()
		if got := Steady(lumps(n, 8, took, apart), 8); math.Abs(got-want) > 1e-6*want {
			t.Fatalf("got %.4f/s, want %.4f", got, want)
		}
	})
}

func TestMeasure(t *testing.T) {
	second := time.Second
	loops := [][]time.Duration{
		{-second, 0, 2 * second, 4 * second, 6 * second, 20 * second},
		{-second, 1 * second, 2 * second, 3 * second, 30 * second},
		{-second, 40 * second}, // none in the span
	}
	c := Measure(loops, []time.Duration{1 * second, 5 * second, 10 * second})
	want := Control{Requests: 10, Rate: 1./2 + 1, FastestMS: 1000}
	if c != want {
		t.Errorf("got %+v, want %+v", c, want)
	}
	if c := Measure(nil, nil); c != (Control{}) {
		t.Errorf("got %+v of nothing", c)
	}
}

// The bound stays where it is while the control is on time, and moves with it.
func TestLongest(t *testing.T) {
	far := Scenarios()[0]
	rate := func(took time.Duration) float64 { return 8 / took.Seconds() }
	for _, c := range []struct {
		share float64
		took  time.Duration // a request of the control
		want  float64       // ms
	}{
		{0.95, 230 * time.Millisecond, 230 / 0.95},
		{0.95, 220 * time.Millisecond, 230 / 0.95}, // nothing is faster than the ideal
		{0.95, 234 * time.Millisecond, 230 / 0.95},
		{0.95, 240 * time.Millisecond, 230 + 3*10},
		{0.85, 234 * time.Millisecond, 230 / 0.85},
		{0.85, 240 * time.Millisecond, 230/0.85 + 3*10 - (230/0.95 - 230)},
	} {
		if got := ms(far.Longest(c.share, Control{Rate: rate(c.took)})); math.Abs(got-c.want) > 0.01 {
			t.Errorf("%.2f beside a control of %s: got %.2f ms, want %.2f", c.share, c.took, got, c.want)
		}
	}
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

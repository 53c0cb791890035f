package histogram

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestQuantile(t *testing.T) {
	ms := func(n ...int) (d []time.Duration) {
		for _, n := range n {
			d = append(d, time.Duration(n)*time.Millisecond)
		}
		return d
	}
	for _, c := range []struct {
		name     string
		in       []time.Duration
		q        float64
		min, max time.Duration
	}{
		{"empty", nil, .5, 0, 0},
		{"one", ms(7), .5, 7 * time.Millisecond, 7 * time.Millisecond},
		{"negative", []time.Duration{-time.Second}, .5, 0, 0},
		{"below the first bucket", []time.Duration{3}, 1, 3, 3},
		{"median of two is the lower", ms(10, 1000), .5, 10 * time.Millisecond, 10500 * time.Microsecond},
		{"median of three", ms(1000, 20, 10), .5, 20 * time.Millisecond, 21 * time.Millisecond},
		{"p95 leaves out one of twenty", append(ms(make([]int, 19)...), time.Hour), .95, 0, 10500 * time.Nanosecond},
		{"q of 0 is the least", ms(10, 1000), 0, 10 * time.Millisecond, 10500 * time.Microsecond},
		{"q below 0", ms(10, 1000), -3, 10 * time.Millisecond, 10500 * time.Microsecond},
		{"q above 1", ms(10, 1000), 3, time.Second, time.Second},
		{"beyond the last bucket", []time.Duration{1000 * time.Hour, math.MaxInt64}, .5, math.MaxInt64, math.MaxInt64},
	} {
		var h Histogram
		for _, d := range c.in {
			h.Add(d)
		}
		if got := h.Quantile(c.q); got < c.min || got > c.max {
			t.Errorf("%s: %s, want %s to %s", c.name, got, c.min, c.max)
		}
	}
}

func TestQuantileIsAtMostABucketTooHigh(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOfN(rapid.Int64Range(0, int64(2*time.Hour)), 1, 200).Draw(t, "durations")
		q := rapid.Float64Range(0.001, 1).Draw(t, "q")
		var h Histogram
		for _, d := range all {
			h.Add(time.Duration(d))
		}
		slices.Sort(all)
		exact := float64(all[int(math.Ceil(q*float64(len(all))))-1])
		got := float64(h.Quantile(q))
		// A value on an edge may be counted one bucket lower: by a rounding, not more.
		if got < exact*(1-1e-9)-1 || got > max(exact, float64(least))*width*(1+1e-9)+1 {
			t.Errorf("%.0f-quantile of %v: %.0f, exactly %.0f", q, all, got, exact)
		}
		if h.Quantile(q) > h.Quantile(1) || h.Quantile(1) != h.Max() || int64(h.Max()) != all[len(all)-1] {
			t.Errorf("quantile(1) is %s, max %s", h.Quantile(1), h.Max())
		}
	})
}

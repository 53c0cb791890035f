// Package histogram keeps durations in constant memory and gives back their
// quantiles, at most 5 % above the truth.
package histogram

import (
	"math"
	"time"
)

const (
	least = 10 * time.Microsecond // upper end of what the first bucket is for
	width = 1.05                  // upper edge of a bucket over its lower one
)

var perBucket = math.Log(width)

// Histogram counts durations in buckets 5 % wide, from 10 µs to two hours. The
// zero value is ready for use. Not safe for concurrent use.
type Histogram struct {
	buckets [420]int64
	count   int64
	max     time.Duration
}

// Add counts d; a negative d counts as 0.
func (h *Histogram) Add(d time.Duration) {
	i := 0
	if d > least {
		i = min(len(h.buckets)-1, int(math.Log(float64(d)/float64(least))/perBucket))
	}
	h.buckets[i]++
	h.count++
	h.max = max(h.max, d)
}

// Max returns the longest duration, exactly; 0 without any.
func (h *Histogram) Max() time.Duration { return h.max }

// Quantile returns the upper edge of the bucket that holds the q-quantile by
// nearest rank, but never more than Max; 0 without any duration. q is between 0
// and 1, what lies outside counts as the nearer of them.
func (h *Histogram) Quantile(q float64) time.Duration {
	rank := max(1, int64(math.Ceil(min(q, 1)*float64(h.count))))
	last := len(h.buckets) - 1
	for i, n := range h.buckets[:last] {
		if rank -= n; rank <= 0 {
			return min(h.max, time.Duration(float64(least)*math.Pow(width, float64(i+1))))
		}
	}
	return h.max // the last bucket has no upper edge
}

package sharedlimit

import (
	"cmp"
	"slices"
	"time"
)

// A minute counts as a burst when its p95 is burstFactor times that of the
// hour or more. With fewer calls nothing is said.
const (
	burstFactor = 2
	leastMinute = 20
	leastHour   = 100
)

// Latency is the p95 of so many calls; 0 of none.
type Latency struct {
	P95   time.Duration
	Calls int
}

// Comparison is the last minute against the rest of its hour.
type Comparison struct {
	Minute, Hour Latency
	Burst        bool // latency has risen by far
}

// Compare sums up the batches of a path. now is on the clock of their times. The
// minute is no part of the hour, or it would hide itself.
func Compare(batches []Batch, now time.Time) Comparison {
	var minute, hour []Batch
	for _, b := range batches {
		switch age := now.Sub(b.At); {
		case age < time.Minute:
			minute = append(minute, b)
		case age <= time.Hour:
			hour = append(hour, b)
		}
	}
	c := Comparison{Minute: p95(minute), Hour: p95(hour)}
	c.Burst = c.Minute.Calls >= leastMinute && c.Hour.Calls >= leastHour && c.Minute.P95 >= burstFactor*c.Hour.P95
	return c
}

// p95 lets each latency of a sample stand for as many calls as there were for it.
func p95(batches []Batch) Latency {
	type weighed struct {
		took   time.Duration
		weight float64
	}
	var all []weighed
	var l Latency
	for _, b := range batches {
		l.Calls += b.Calls
		for _, d := range b.Sample {
			all = append(all, weighed{d, float64(b.Calls) / float64(len(b.Sample))})
		}
	}
	slices.SortFunc(all, func(a, b weighed) int { return cmp.Compare(a.took, b.took) })
	below := 0.0
	for _, w := range all {
		below += w.weight
		l.P95 = w.took
		if below >= 0.95*float64(l.Calls)-1e-6 {
			break
		}
	}
	return l
}

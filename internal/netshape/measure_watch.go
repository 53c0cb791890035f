package netshape

import (
	"slices"
	"time"
)

// Detector learns the delay without load from the samples of an uplink, and judges
// its rate by those with load. Its zero value knows nothing yet. It is not safe for
// concurrent use.
type Detector struct {
	Known  time.Duration // delay without load as measured before; 0: it has to be learnt
	quiet  []time.Duration
	recent []Sample
}

const (
	remembered = 15 // samples: what was long ago is no sign of what is
	quietKept  = 30 // delays without load, of which the median is taken
	quietMin   = 3  // that are believed more than Known
)

// Add takes the next sample, one a second, and returns what it and those before
// it say about rate (bit/s). Without a sample of the delay without load there is
// no verdict.
func (d *Detector) Add(rate uint64, s Sample) RateVerdict {
	if !s.loaded(rate) && s.Delay > 0 {
		d.quiet = keep(append(d.quiet, s.Delay), quietKept)
	}
	d.recent = keep(append(d.recent, s), remembered)
	return JudgeRate(rate, d.Idle(), d.recent)
}

// Idle is the delay without load; 0: not known.
func (d *Detector) Idle() time.Duration {
	if len(d.quiet) < quietMin && d.Known > 0 {
		return d.Known
	}
	return quantile(d.quiet, 0.5)
}

// Forget drops what was seen under load, for the rate is another one from now on.
func (d *Detector) Forget() { d.recent = nil }

// suspect reports that one of the latest samples speaks against the rate.
func (d *Detector) suspect(rate uint64) bool {
	return slices.ContainsFunc(d.recent[max(0, len(d.recent)-guilty):], func(s Sample) bool { return s.against(rate, d.Idle()) })
}

// keep returns the last n of list.
func keep[T any](list []T, n int) []T {
	return slices.Delete(list, 0, max(0, len(list)-n))
}

package netshape

import (
	"fmt"
	"slices"
	"time"
)

// Detector learns the delay without load from the samples of an uplink, and judges
// its rate by those with load. Its zero value knows nothing yet. It is not safe for
// concurrent use.
type Detector struct {
	Known   time.Duration // delay without load as measured before; 0: it has to be learnt
	Assumed time.Duration // what the delay without load is taken for until it was seen, if no shorter one was; 0: nothing
	quiet   []time.Duration
	recent  []Sample
	least   time.Duration // the shortest delay of all; 0: none was seen
	looked  bool          // least was seen while the queue in the modem ran empty
}

const (
	remembered = 15 // samples: what was long ago is no sign of what is
	quietKept  = 30 // delays without load, of which the median is taken
	quietMin   = 3  // that are believed more than Known
)

// Add takes the next sample, one a second, and returns what it and those before
// it say about rate (bit/s). As long as the delay without load was not seen, the
// shortest one of all stands for it, or Assumed where that is shorter.
func (d *Detector) Add(rate uint64, s Sample) RateVerdict {
	d.see(rate, s)
	d.recent = keep(append(d.recent, s), remembered)
	return d.judge(rate)
}

// see learns of the delay without load.
func (d *Detector) see(rate uint64, s Sample) {
	if s.Delay <= 0 {
		return
	}
	if !s.loaded(rate) {
		d.quiet = keep(append(d.quiet, s.Delay), quietKept)
	}
	if d.least == 0 || s.Delay < d.least {
		d.least = s.Delay
	}
}

// judge is the verdict about the latest samples.
func (d *Detector) judge(rate uint64) RateVerdict {
	v := JudgeRate(rate, d.reference(), d.recent)
	if v.TooHigh && d.Idle() == 0 {
		v.Text += fmt.Sprintf(" (idle delay not seen yet, taken as %v)", d.reference().Round(time.Millisecond))
	}
	return v
}

// Idle is the delay without load; 0: not known.
func (d *Detector) Idle() time.Duration {
	switch {
	case len(d.quiet) < quietMin && d.Known > 0:
		return d.Known
	case len(d.quiet) > 0:
		return quantile(d.quiet, 0.5)
	case d.looked:
		return d.least
	}
	return 0
}

// reference is the delay that others are compared with: Idle, or what stands for it.
// It is too long rather than too short unless Assumed is: with load no delay is
// shorter than without.
func (d *Detector) reference() time.Duration {
	switch idle := d.Idle(); {
	case idle > 0:
		return idle
	case d.Assumed > 0 && (d.least == 0 || d.Assumed < d.least):
		return d.Assumed
	}
	return d.least
}

// Forget drops what was seen under load, for the rate is another one from now on.
func (d *Detector) Forget() { d.recent = nil }

// suspect reports that one of the latest samples speaks against the rate.
func (d *Detector) suspect(rate uint64) bool {
	return slices.ContainsFunc(d.recent[max(0, len(d.recent)-guilty):], func(s Sample) bool { return s.against(rate, d.reference()) })
}

// keep returns the last n of list.
func keep[T any](list []T, n int) []T {
	return slices.Delete(list, 0, max(0, len(list)-n))
}

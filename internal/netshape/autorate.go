package netshape

import (
	"cmp"
	"time"
)

// Autorate fits an upload's rate to a link that carries more at one time than at
// another. It is meant for what goes out: what comes in gives no usable sign on
// the links that vary most.
type Autorate struct {
	Min, Max uint64        // bit/s; Max is the rate of a fixed shaper
	Rest     time.Duration // after a change, in which the queue in the modem empties and load says nothing; 0: 4 s
}

// Steering decides the rate sample by sample. Nothing but load with a delay that
// it alone explains makes it cut; knowing nothing it goes back to Max. It is not
// safe for concurrent use.
type Steering struct {
	Autorate
	Detector
	changed time.Time
	look    glance
	tried   bool // there was a look
}

const rest = 4 * time.Second // the default for Autorate.Rest

// Next takes the next sample, one a second, seen at a rate (bit/s), and returns
// the rate that there shall be from now on, with what the sample says about the
// one there is. It is pure but for what it remembers.
//
// A cut goes to 85 % of what the link carried, yet by half at most, and by a
// twentieth at least: the queue in the modem has to empty. The way back is by a
// twentieth. Where load does not end and the delay without it was never seen, it
// looks for that, once: at half of what the link carried, for five seconds at most.
func (s *Steering) Next(now time.Time, rate uint64, x Sample) (next uint64, v RateVerdict) {
	if s.looking(rate) {
		next, v = s.lookOn(now, rate, x)
	} else {
		next, v = s.decide(now, rate, x)
	}
	next = min(max(next&^7, s.Min), s.Max)
	if next != rate {
		s.changed = now
	}
	if next != rate && s.look.rate == 0 { // what was seen before a look is judged after it
		s.Forget()
	}
	return next, v
}

// decide is Next while there is no look.
func (s *Steering) decide(now time.Time, rate uint64, x Sample) (next uint64, v RateVerdict) {
	rested := now.Sub(s.changed) >= cmp.Or(s.Rest, rest)
	if rested || !x.loaded(rate) {
		v = s.Add(rate, x)
	}
	switch {
	case !rested:
	case v.TooHigh && x.loaded(rate):
		return cut(rate, v), v
	case s.blind(rate, x):
		return s.lookAt(now, rate, x)
	case !v.TooHigh && !s.suspect(rate):
		return rate + rate/20 + 8, v
	}
	return rate, v
}

func cut(rate uint64, v RateVerdict) uint64 {
	return min(max(v.Carries/20*17, rate/2), rate/20*19)
}

package netshape

import (
	"fmt"
	"time"
)

// glance is a short cut that lets the queue in the modem run empty: the shortest delay
// is the one without load then. The zero value: there is none.
type glance struct {
	from, rate uint64 // bit/s: before and meanwhile
	until      time.Time
	answered   bool // a probe was
}

const (
	lookFor = 5 * time.Second // at most
	lasting = 10              // loaded samples of those remembered, after which load is not waited out
)

// looking reports that there is a look. It is over when the rate is another one:
// somebody changed it, or did not let it be changed.
func (s *Steering) looking(rate uint64) bool {
	if s.look.rate != 0 && s.look.rate != rate {
		s.look, s.tried = glance{}, false
	}
	return s.look.rate != 0
}

// blind reports that load lasts, that its delay might speak against the rate, and
// that nobody knows what the delay is without.
func (s *Steering) blind(rate uint64, x Sample) bool {
	loaded := 0
	for _, r := range s.recent {
		if r.loaded(rate) {
			loaded++
		}
	}
	return !s.tried && s.Idle() == 0 && x.loaded(rate) && loaded >= lasting && JudgeRate(rate, 1, s.recent).TooHigh
}

// lookAt begins a look, unless there is no lower rate to look at.
func (s *Steering) lookAt(now time.Time, rate uint64, x Sample) (next uint64, v RateVerdict) {
	carries := JudgeRate(rate, 1, s.recent).Carries
	next = max(min(rate, carries)/2&^7, s.Min)
	if next >= rate {
		return rate, v
	}
	s.look, s.tried = glance{from: rate, rate: next, until: now.Add(lookFor)}, true
	v.Look = fmt.Sprintf("under load the delay is %v, what it is without was not seen yet: to see it, for %v at most", x.Delay.Round(time.Millisecond), lookFor)
	return next, v
}

// lookOn takes a sample of a look. When there is no time for another one, or no load
// any more, the rate is again what it was, or what the load before says by now.
func (s *Steering) lookOn(now time.Time, rate uint64, x Sample) (next uint64, v RateVerdict) {
	s.see(rate, x)
	s.look.answered = s.look.answered || x.Delay > 0
	if now.Add(gaugeEvery+x.Delay).Before(s.look.until) && x.loaded(rate) {
		return rate, v
	}
	next, s.looked = s.look.from, s.look.answered
	s.look = glance{}
	if !s.looked {
		v.Look = "nothing answered meanwhile"
		return next, v
	}
	if x.loaded(rate) {
		if v = s.judge(next); v.TooHigh {
			next = cut(next, v)
		}
	}
	v.Look = fmt.Sprintf("the delay without load is taken as %v, the shortest one", s.Idle().Round(time.Millisecond))
	return next, v
}

// left is how long a probe may take: a look has to end in time.
func (s *Steering) left(now time.Time) time.Duration {
	if s.look.rate == 0 {
		return askTimeout
	}
	return min(askTimeout, max(s.look.until.Sub(now), 0))
}

package ratelimit

import "time"

// late is how much a call may be behind its time and still not delay those
// after it: timers do not fire exactly, and the small delays would add up.
const late = 2 * time.Millisecond

// pace is a token bucket that holds one call, kept as the time at which the next call is due (the
// virtual scheduling form of the generic cell rate algorithm, ITU-T I.371). The
// zero value is full. The rate is an argument, so that it may change any time.
type pace struct{ due time.Time }

func (p *pace) delay(now time.Time) time.Duration { return max(p.due.Sub(now), 0) }

// take counts a call at now, at rate calls per second.
func (p *pace) take(now time.Time, rate float64) {
	if p.due.Before(now.Add(-late)) {
		p.due = now // not late: nobody came
	}
	p.due = p.due.Add(time.Duration(float64(time.Second) / rate))
}

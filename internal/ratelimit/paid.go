package ratelimit

import (
	"math"
	"time"
)

const (
	paidStep  = 750 * time.Millisecond // as rampStep, where each refusal costs a pause
	unlike    = 0.1                    // by what part two walls may differ and the dip still be halved
	mostFalls = 2                      // what a wall is divided by at most, for one refusal
	adjust    = 1.5                    // see paid.deep
	mostDeep  = 8
)

// paid is what a ceiling remembers where a refusal costs a pause of the server's
// choice, a whole second at least. The pause drains what is under way and lets
// the bucket fill, so the rate need not fall below the ceiling for that, too; but
// refusals have to be few, so each is made to tell as much as it can: how many
// calls too many the bucket bore until then, see [ceiling.solve].
type paid struct {
	pause time.Duration // last asked for; 0: the last refusal asked for none
	calls float64       // let through before the first refusal, by a bucket that was full
	span  float64       // seconds that took
	deep  float64       // corrects the size of the bucket: up when a wall is refused early, down when late
}

// bucket is how many calls the server holds ready after the pause, if it bears
// rate calls per second.
func (p *paid) bucket(rate float64) float64 {
	// What came in while the bucket was emptied is between none and rate times
	// span: the calls began slowly.
	full := max((p.calls-rate*p.span/2)*p.deep, 1)
	return min(full, rate*p.pause.Seconds())
}

// learnPaid sets the wall after a refusal that is paid for by a pause. The call
// was sent ago.
func (c *ceiling) learnPaid(rate, through float64, ago time.Duration, now time.Time) {
	if c.base == 0 {
		// What went through at once says nothing: the ramp begins at the bottom.
		c.base = leastBase
		c.paid = paid{pause: c.paid.pause, calls: float64(c.oks), span: now.Sub(c.since).Seconds(), deep: 1}
		return
	}
	if c.oks == 0 {
		// Nothing passes at all, which is no ceiling: back to the ramp, carefully.
		c.wall, c.base = 0, max(c.base/2, lowest)
		return
	}
	before, age := c.wall, max(c.age-ago, 0)
	if before == 0 {
		c.wall = max(c.solve(rate, ago), through)
		c.dip, c.trust = firstDip, 0.8
		return
	}
	switch climb := c.climb(); {
	case age < climb:
		c.paid.deep = min(c.paid.deep*adjust, mostDeep)
	case age > 2*climb:
		c.paid.deep = max(c.paid.deep/adjust, 1./mostDeep)
	}
	c.wall = max(c.solve(rate, ago), through, rate/mostFalls, lowest)
	if math.Abs(c.wall/before-1) > unlike {
		c.dip = firstDip / 2
	} else {
		c.dip = max(c.dip/2, leastDip)
	}
}

// solve returns the ceiling at which the calls sent beyond it, on the ramp or the
// curve up to the call sent ago, are just what the bucket held.
func (c *ceiling) solve(rate float64, ago time.Duration) float64 {
	const parts, halvings = 64, 24
	part := max(c.age-ago, 0) / parts
	low, high := 0.0, rate
	for range halvings {
		try := (low + high) / 2
		var beyond float64
		for i := range parts {
			at := ago + part*time.Duration(i) + part/2
			beyond += max(c.rate(at)-try, 0) * part.Seconds()
		}
		if beyond > c.paid.bucket(try) {
			low = try
		} else {
			high = try
		}
	}
	return high
}

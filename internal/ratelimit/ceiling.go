package ratelimit

import (
	"math"
	"time"
)

const (
	rampStep   = 250 * time.Millisecond // in which the rate doubles until a ceiling is met
	enough     = 20                     // calls a goodput is judged by: less is noise
	leastBase  = 4                      // calls per second the ramp begins with at least
	lowest     = 0.5                    // calls per second: someone has to notice when it is over
	firstDip   = 0.2                    // by what part the rate falls below a ceiling newly met
	leastDip   = 0.02                   // and below one that proved itself time and again
	confirmed  = 0.03                   // by what part two measurements of a ceiling may differ and still be one
	leastTrust = 0.25                   // see ceiling.trust
	climbTime  = 900 * time.Millisecond // back to the ceiling, for a dip of 1; longer for a smaller one
)

// ceiling learns from refusals alone what a server bears. Until the first one
// nothing holds calls back, so it says only that the ceiling is lower than what
// was sent. The rate begins anew from half of what went through and doubles every
// rampStep until it is refused, too. From then on it follows the cubic curve of
// RFC 9438 around the wall, the ceiling as last measured: a dip below, a steep
// return, long near the wall, then ever faster beyond it. Each time a wall is
// met the dip is halved, or quartered if the wall is where it was, and the climb
// takes as many times longer.
//
// What is measured: at the moment of a refusal the server's bucket is empty.
// Between two such moments it has handed out exactly what it gained, or less if
// it was full at some time, so the goodput between them is the ceiling or below.
// The rate the refused call was sent at is the ceiling or above. A bucket that
// holds much hides the ceiling from the second number, one that holds little
// from the first; which it is shows when a wall is refused at once.
type ceiling struct {
	base  float64       // calls per second the ramp begins with; 0: never refused
	wall  float64       // calls per second; 0: not met yet
	dip   float64       // part of wall
	trust float64       // from 0, the wall is what went through, to 1, it is the rate that was refused
	age   time.Duration // on the ramp or the curve: time in which the rate was what held calls back

	cut   time.Time // a refusal of a call sent before is part of the last one
	since time.Time // of the counting: a moment with an empty bucket, or the first call
	oks   int       // since then
	wait  time.Time // nothing is sent before
	paid  paid      // what is known when refusals carry a Retry-After

	chance chance // whether refusals are about the rate at all; while it is cleared, wall is 0 and base the wall there was
}

// rate returns calls per second, which may be infinite, at an age of c.age - ago.
func (c *ceiling) rate(ago time.Duration) float64 {
	age := max(c.age-ago, 0).Seconds()
	switch {
	case c.wall > 0:
		x := age/c.climb().Seconds() - 1
		return max(c.wall*(1+c.dip*x*x*x), lowest)
	case c.base > 0:
		return c.base * math.Exp2(age/c.step().Seconds())
	}
	return math.Inf(1)
}

func (c *ceiling) climb() time.Duration { return time.Duration(float64(climbTime) / c.dip) }

// grow moves on along the curve, for a call that this rate held back for d. One
// call alone is not worth more than two intervals, nor a doubling: a pause is
// no proof.
func (c *ceiling) grow(d time.Duration) {
	d = min(d, time.Duration(2*float64(time.Second)/c.rate(0)))
	if c.wall == 0 {
		d = min(d, c.step())
	}
	c.age += d
}

// goodput returns the calls per second that went through while counting, and
// whether they are enough to judge by.
func (c *ceiling) goodput(now time.Time) (float64, bool) {
	d := now.Sub(c.since).Seconds()
	if d <= 0 {
		return 0, false
	}
	return float64(c.oks) / d, c.oks >= enough
}

// ok counts a call that was not refused.
func (c *ceiling) ok() {
	c.oks++
	if c.chance.ok() {
		c.base = 0 // as before the first refusal
	}
}

// step is the time in which the rate doubles on the ramp.
func (c *ceiling) step() time.Duration {
	if c.paid.pause > 0 {
		return paidStep
	}
	return rampStep
}

// refused takes in the answer to a call that was sent, at rate calls per second,
// at sent. Of a burst of refusals the first one counts. after is the pause the
// server asks for.
func (c *ceiling) refused(rate float64, sent, now time.Time, after time.Duration) {
	cleared := c.chance.share > 0
	switch {
	case after == 0 && c.chance.explains(c.cut, now):
		return
	case after > 0 && cleared:
		c.chance.end(c.cut, now)
	}
	through, judged := c.goodput(now)
	late := sent.Before(c.cut) || sent.Before(c.wait)
	if until := now.Add(after); after > 0 && until.After(c.wait) {
		c.wait = until
	}
	if late {
		// The rest of a burst: the rate is cut, and what was sent while nothing was
		// let through had passed before and waited for a permit. But a burst of some
		// length also measures, and the first cut may have been far from enough.
		if after == 0 && c.trust < 1 && judged && through < 0.8*c.wall {
			c.wall = max(through, lowest)
			c.cut, c.age = now, 0
			c.trust = max(c.trust/2, leastTrust)
		}
		return
	}
	switch c.paid.pause = after; {
	case after > 0:
		c.learnPaid(rate, through, now.Sub(sent), now)
	case cleared:
		c.wall, c.dip = c.base, firstDip // it was the rate: back to the wall there was
	default:
		below := c.wall > 0 && c.rate(0) < 0.995*c.wall
		c.learn(rate, through, judged)
		if c.chance.clears(below, now) {
			c.base, c.wall = c.wall, 0
		}
	}
	if judged || after > 0 || c.cut.IsZero() {
		c.since, c.oks = now, 0
	}
	c.cut, c.age = now, 0
	// Two calls' worth for the bucket, so that what comes at the new rate is not
	// refused for what came at the old one. While the wall is unsure all that is
	// under way may arrive first.
	pause := time.Duration(2 * float64(time.Second) / c.rate(0))
	if c.wall == 0 || c.dip >= firstDip/2 {
		pause = max(pause, now.Sub(sent))
	}
	if until := now.Add(min(pause, time.Second)); until.After(c.wait) {
		c.wait = until
	}
}

func (c *ceiling) learn(rate, through float64, judged bool) {
	switch {
	case c.base == 0:
		// What went through began with a full bucket and few calls.
		c.base = max(min(rate, through/2), leastBase)
		return
	case c.wall == 0:
		// A rate below what went through is that of a call that passed long before it
		// was sent.
		c.dip, c.trust = firstDip, 0.8
		c.wall = max(rate, through)
	case c.age < c.climb()/4:
		// Refused again at once: the ceiling came down, or it was the bucket that
		// let the last wall look too high.
		c.trust = max(c.trust/2, leastTrust)
		if judged {
			c.wall = through
		} else {
			c.wall *= 0.8
			c.dip = min(2*c.dip, firstDip)
		}
	case !judged:
		c.wall = rate
	case c.age > 5*c.climb()/2:
		// The ceiling rose. What went through on the way here says little.
		c.wall, c.dip, c.trust = rate, firstDip, 1
	default:
		before := c.wall
		c.wall = through + c.trust*(rate-through)
		c.trust = min(2*c.trust, 1)
		c.dip /= 2
		if math.Abs(c.wall/before-1) < confirmed {
			c.dip /= 2
		}
		c.dip = max(c.dip, leastDip)
	}
	c.wall = max(c.wall, lowest)
}

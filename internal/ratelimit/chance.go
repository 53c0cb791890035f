package ratelimit

import "time"

const (
	suspicions  = 5               // refusals below the wall, more than others, until the rate is cleared
	leastGap    = 5               // calls before such a refusal: less is a bucket that is empty
	mostShare   = 0.2             // of the calls refused meanwhile: more is a ceiling
	mostExcess  = 8               // see chance.excess
	settled     = 100             // refusals by which their share is known
	quiet       = 2000            // calls without a refusal, after which it is over
	firstRest   = 4 * time.Minute // in which the rate is not cleared again
	longestRest = time.Hour
)

// chance tells refusals that have nothing to do with the rate (a shared quota,
// load shedding) from those of a ceiling. Below a ceiling a call is not refused;
// so when calls are refused time and again at rates well below the wall, the rate
// is cleared of it: it rises as on the ramp, and refusals teach nothing as long
// as they are about as many of the calls as at the low rate. A ceiling would
// refuse all that is beyond it: it is found out within a dozen of them.
type chance struct {
	below    int // refusals well below the wall, less the others
	refusals int // of calls
	calls    int
	gap      int // calls since the last refusal

	share  float64 // of the calls, refused at any rate; 0: the rate is not cleared
	excess float64 // refusals beyond what that share explains, never below 0 (a CUSUM)
	rest   time.Duration
	until  time.Time // the rate is not cleared before
}

// ok counts a call that was not refused, and tells whether nothing has been
// refused for so long that what share says is out of date.
func (c *chance) ok() (over bool) {
	c.calls++
	c.gap++
	if c.share == 0 {
		return false
	}
	if c.excess = max(c.excess-c.allowed(), 0); c.excess == 0 && c.refusals < settled {
		c.share = float64(c.refusals) / float64(c.calls)
	}
	if c.gap < quiet {
		return false
	}
	*c = chance{rest: c.rest, until: c.until}
	return true
}

// allowed is the part of the calls that may be refused and still not be the
// rate's fault. The share is known from few refusals.
func (c *chance) allowed() float64 { return 2*c.share + 0.05 }

// explains counts a refusal and tells whether it has nothing to do with the rate,
// which was cleared at since. It ends that when it has.
func (c *chance) explains(since, now time.Time) bool {
	c.calls++
	c.refusals++
	if c.share == 0 {
		return false
	}
	c.gap = 0
	c.excess += 1 - c.allowed()
	if c.excess < mostExcess {
		return true
	}
	c.end(since, now)
	return false
}

// end has the rate answer for refusals again.
func (c *chance) end(since, now time.Time) {
	rest := min(2*c.rest, longestRest)
	if rest == 0 || now.Sub(since) > c.rest {
		rest = firstRest
	}
	*c = chance{rest: rest, until: now.Add(rest)}
}

// clears tells whether the refusal counted last, the first one of a burst, clears
// the rate. below says that it was sent well below the wall.
func (c *chance) clears(below bool, now time.Time) bool {
	gap := c.gap
	c.gap = 0
	switch {
	case !below && c.below <= 1:
		c.below, c.refusals, c.calls = 0, 0, 0
	case !below:
		c.below--
	case gap >= leastGap:
		c.below++
	}
	if c.below < suspicions {
		return false
	}
	if share := float64(c.refusals) / float64(c.calls); share <= mostShare && !now.Before(c.until) {
		c.share = share
		return true
	}
	c.below, c.refusals, c.calls = 0, 0, 0
	return false
}

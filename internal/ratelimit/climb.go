package ratelimit

import (
	"math"
	"time"
)

const (
	start      = 4    // calls in flight: a server that they make queue is a small one
	leastRound = 16   // calls in a round: the durations of fewer are noise
	steepRise  = 1.2  // of the expected duration, which ends the slow start
	slightRise = 1.05 // beyond which a limit is no longer raised
	seenMost   = 1000 // calls by which the server's own time is settled
	shrinkTo   = 0.9  // of the limit, when the server refuses
)

// climb decides how many calls may be in flight. It goes by rounds of as many
// calls as the limit allows, later of four times as many. In the slow start each round doubles the
// limit. When durations rise, calls have begun to queue at the server; by
// Little's law the limit at which none would queue is the present one times the
// expected by the measured duration, and there the slow start ends. From then
// on each round adds half the square root of the limit, and gives back by the
// same law when durations rise. Half of where the slow start ended is never
// given back: below that the limit goes only when the server refuses, each time
// by a tenth.
//
// The expected duration is the round-trip time as it is now plus the time the
// server itself took before anything queued: a link that becomes slower does not
// look like a server that queues. A rise that chance may explain is none.
type climb struct {
	cfg    AdaptiveConfig
	limit  float64
	floor  float64   // durations do not bring the limit below
	slow   bool      // in the slow start
	server float64   // seconds the server takes by itself
	seen   int       // calls that was judged by
	shrunk time.Time // the limit; calls sent before do not shrink it again
	round  round
}

// round sums up calls under one limit. It counts by when they end: the first to
// end of those that began together would be the short ones.
type round struct {
	skipped             int // the first calls, which began under the limit before
	calls, busy         int // busy: while the limit was in use to the full
	rtt, server, square float64
}

func newClimb(cfg AdaptiveConfig) climb {
	limit := float64(min(max(start, cfg.Min), cfg.Max))
	return climb{cfg: cfg, limit: limit, floor: limit, slow: true}
}

func (c *climb) whole() int { return int(c.limit) }

// learn takes in a call that ended now. busy says that the limit was in use to
// the full.
func (c *climb) learn(s Sample, busy bool, now time.Time) {
	if s.Shrink && !now.Add(-s.Duration).Before(c.shrunk) {
		c.slow, c.shrunk = false, now
		c.set(c.limit * shrinkTo)
		c.floor, c.round = c.limit, round{}
	}
	if s.Frozen {
		c.round = round{} // what is seen around a closed gate is not the server at work
	}
	if s.Shrink || s.Frozen || s.Duration <= 0 {
		return
	}
	r := &c.round
	if r.skipped < c.whole() {
		r.skipped++
		return
	}
	r.calls++
	if busy {
		r.busy++
	}
	rtt := min(max(s.RTT, 0), s.Duration)
	server := (s.Duration - rtt).Seconds()
	r.rtt += rtt.Seconds()
	r.server += server
	r.square += server * server
	length := leastRound
	if !c.slow {
		length = min(4*c.whole(), 4*leastRound) // there is time now to be less often wrong
	}
	if r.calls >= max(length, c.whole()) {
		c.judge(*r)
		c.round = round{}
	}
}

// judge ends a round.
func (c *climb) judge(r round) {
	rise := c.compare(r)
	switch {
	case rise >= steepRise && c.slow:
		c.slow = false
		c.set(c.limit / rise)
		c.floor = c.limit / 2
	case rise >= slightRise && !c.slow:
		c.set(max(c.floor, c.limit/rise))
	case 2*r.busy < r.calls:
		// Nobody asked for more.
	case c.slow:
		c.set(2 * c.limit)
	default:
		c.set(c.limit + max(math.Sqrt(c.limit)/2, 1))
	}
}

// compare returns the mean duration of a round as a multiple of what is
// expected, and settles what will be.
func (c *climb) compare(r round) float64 {
	n := float64(r.calls)
	rtt, server := r.rtt/n, r.server/n
	if c.seen == 0 {
		c.server = server
	}
	// Two standard errors of the difference of two means.
	spread := max(r.square/n-server*server, 0)
	chance := 2 * math.Sqrt(spread/n+spread/float64(max(c.seen, 1)))
	rise := 1.0
	if server > c.server+chance {
		rise = (rtt + server) / (rtt + c.server)
	}
	if rise < slightRise && c.seen < seenMost || server < c.server-1.5*chance {
		c.seen = min(c.seen+r.calls, seenMost)
		c.server += (server - c.server) * min(n/float64(c.seen), 1)
	}
	return rise
}

func (c *climb) set(limit float64) {
	c.limit = min(max(limit, float64(c.cfg.Min)), float64(c.cfg.Max))
}

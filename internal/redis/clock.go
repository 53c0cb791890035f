package redis

import "time"

// tightFor is how long a measurement of the clock is better than one that is less
// exact. Clocks drift by less than a millisecond in that time.
const tightFor = 10 * time.Second

// Clock is how far Redis' clock is ahead of ours, give or take Within: the script
// that read it ran at some time between our question and its answer.
type Clock struct {
	Ahead, Within time.Duration
	At            time.Time // of the measurement, on our clock
}

// Clock returns the last measurement, which every answer of a script brings, and
// whether there was one. Of those of ten seconds it is the most exact one.
func (c *Client) Clock() (clock Clock, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.clock, !c.clock.At.IsZero()
}

func (c *Client) tick(asked, answered, theirs time.Time) {
	half := answered.Sub(asked) / 2
	ahead := theirs.Sub(asked.Add(half).Round(0)) // without the monotonic reading, which theirs lacks
	c.mu.Lock()
	defer c.mu.Unlock()
	if half <= c.clock.Within || answered.Sub(c.clock.At) > tightFor {
		c.clock = Clock{Ahead: ahead, Within: half, At: answered}
	}
}

// now is the time on Redis' clock as last measured; ours as long as it never was.
// What runs on from there is the monotonic clock: ours may be set meanwhile.
func (c *Client) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.clock.At.IsZero() {
		return time.Now().Round(0).UTC()
	}
	return c.clock.At.Add(c.clock.Ahead + time.Since(c.clock.At)).Round(0).UTC()
}

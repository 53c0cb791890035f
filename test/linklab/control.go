package linklab

import "time"

// Control is what a bare client reached while the upload went on: net/http with
// as many requests at once, over a link of its own that has the round trip of the
// first and no loss, from the same client and to the same server. It shows what
// the machine makes of the ideal in these seconds.
type Control struct {
	Requests  int     `json:"requests"`   // all acked, each under a key of its own
	Rate      float64 `json:"rate"`       // per second, in the span of [Result.Steady]; 0: it did not run
	FastestMS float64 `json:"fastest_ms"` // request of all
}

// Measure sums up a control. Each of its loops sends one request after the
// other; loops holds for each when the first began and when each ended, as times
// since the start of the upload. ends are those of the upload's records in the
// span that counts.
func Measure(loops [][]time.Duration, ends []time.Duration) Control {
	var c Control
	for _, loop := range loops {
		for i := 1; i < len(loop); i++ {
			ms := float64((loop[i] - loop[i-1]).Microseconds()) / 1000
			if c.Requests == 0 {
				c.FastestMS = ms
			}
			c.Requests++
			c.FastestMS = min(c.FastestMS, ms)
		}
		if len(ends) > 0 {
			c.Rate += rate(between(loop, ends[0], ends[len(ends)-1]), 1)
		}
	}
	return c
}

// between returns the part of ends, which are in order, that lies in a span.
func between(ends []time.Duration, from, to time.Duration) []time.Duration {
	i, j := 0, len(ends)
	for i < j && ends[i] < from {
		i++
	}
	for j > i && ends[j-1] > to {
		j--
	}
	return ends[i:j]
}

// rate is that of ends, in order, per second. They come in lumps of so many: it is
// taken from the middle of the first lump to that of the last.
func rate(ends []time.Duration, lump int) float64 {
	n := len(ends) - lump
	if n < 1 {
		return 0
	}
	var span time.Duration
	for i := range lump {
		span += ends[n+i] - ends[i]
	}
	if span <= 0 {
		return 0
	}
	return float64(n*lump) / span.Seconds()
}

// dearer is how much more an upload loses on a late processor than its control,
// which computes less for each record: about twice as much, three times at most.
const dearer = 3

// Longest returns how long a request of the upload may take on average, when it is
// to reach a share of the ideal rate. The time that makes 95 % of it is enough for
// a machine that is on time. To one that is not, a control bears witness: it takes
// longer than the ideal as well, and what that explains is added.
func (s Scenario) Longest(share float64, c Control) time.Duration {
	ideal := float64(s.Link.RTT + s.Delay)
	late := dearer*(s.Took(c.Rate)-s.Link.RTT-s.Delay) - time.Duration(ideal/0.95-ideal)
	return time.Duration(ideal/share) + max(0, late)
}

// Took returns how long a request takes, waits between them included, at a rate per second.
func (s Scenario) Took(rate float64) time.Duration {
	return time.Duration(float64(s.Concurrency) / rate * float64(time.Second))
}

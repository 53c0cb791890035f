package linklab

import (
	"fmt"
	"strconv"
	"time"
)

// Profile is a kind of link, seen from end to end. Each direction has half of
// the delay and all of the rest.
type Profile struct {
	RTT     time.Duration
	Jitter  time.Duration // by which a round trip may be longer or shorter
	Loss    float64       // share of packets
	Burst   float64       // packets lost in a row on average; 0: each by itself
	Mbit    int           // per second; 0: no limit
	Outages Outages
}

// Outages are times in which a link carries nothing and says so to nobody. They
// lie at the ends of periods of equal length.
type Outages struct {
	Every    time.Duration // 0: never
	Share    float64       // of periods that end with one
	Min, Max time.Duration
}

// The profiles. The figures of the two LEO links are what a dish that changes
// satellites every 15 s shows, near a ground station and far from one.
var (
	Terrestrial = Profile{RTT: 20 * time.Millisecond}
	LEO         = Profile{RTT: 45 * time.Millisecond, Jitter: 15 * time.Millisecond, Loss: 0.01, Burst: 4,
		Outages: Outages{Every: 15 * time.Second, Share: 1. / 3, Min: 500 * time.Millisecond, Max: 2 * time.Second}}
	Far         = Profile{RTT: 230 * time.Millisecond}
	FarLossy    = Profile{RTT: 230 * time.Millisecond, Loss: 0.01}
	GEO         = Profile{RTT: 600 * time.Millisecond, Loss: 0.005}
	Cellular    = Profile{RTT: 80 * time.Millisecond, Mbit: 5}
	Maintenance = Profile{RTT: 230 * time.Millisecond,
		Outages: Outages{Every: 30 * time.Second, Share: 1, Min: 10 * time.Second, Max: 10 * time.Second}}
)

// Netem returns the arguments of tc for one direction of the link, or of the
// link in an outage.
func (p Profile) Netem(out bool) []string {
	args := []string{"netem", "delay", micros(p.RTT / 2)}
	if p.Jitter > 0 {
		args = append(args, micros(p.Jitter/2))
	}
	switch {
	case out:
		args = append(args, "loss", "100%")
	case p.Burst > 0:
		// The Gilbert model: a burst ends with each packet with probability r,
		// so it lasts 1/r of them; p makes the share of packets in bursts Loss.
		r := 1 / p.Burst
		args = append(args, "loss", "gemodel", percent(r*p.Loss/(1-p.Loss)), percent(r))
	case p.Loss > 0:
		args = append(args, "loss", percent(p.Loss))
	}
	if p.Mbit > 0 {
		args = append(args, "rate", fmt.Sprintf("%dmbit", p.Mbit))
	}
	return args
}

// Next returns the outage of the n-th period, counted from 0, as times since
// the link was made. ok is false for a period without. u and v are uniform in
// [0, 1).
func (o Outages) Next(n int, u, v float64) (from, to time.Duration, ok bool) {
	to = time.Duration(n+1) * o.Every
	from = to - o.Min - time.Duration(v*float64(o.Max-o.Min))
	return from, to, u < o.Share
}

func micros(d time.Duration) string { return strconv.FormatInt(d.Microseconds(), 10) + "us" }

func percent(share float64) string { return strconv.FormatFloat(100*share, 'f', 4, 64) + "%" }

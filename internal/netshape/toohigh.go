package netshape

import (
	"fmt"
	"slices"
	"time"
)

// Sample is what an uplink was like for a short while, a second say.
type Sample struct {
	Delay   time.Duration // round trip of a packet that passes our own queue at once; 0: it was lost
	Sent    uint64        // bit/s
	Backlog uint64        // bytes in our own queue, or in its fullest tin
}

// RateVerdict is what samples say about a rate. Its zero value: nothing.
type RateVerdict struct {
	TooHigh bool
	Carries uint64 // bit/s: what the link carried meanwhile, a better rate is below
	Text    string // "" unless TooHigh
	Look    string // of a [Steering]: why it looks for the delay without load, and what it saw; "": it does not
}

const (
	judged  = 5                     // loaded samples looked at, the latest
	guilty  = 3                     // of them have to speak against the rate
	riseMin = 50 * time.Millisecond // of the delay, with load; a handover of satellites is shorter
)

// JudgeRate tells whether rate (bit/s) is above what the link carries: then
// packets wait in the modem or dish, where nothing of ours has a say. The sign is
// a delay that rises with load far above idle, the delay without load, and above
// what our own queue explains. A delay that rises without load says nothing about
// the rate. It is pure; samples are in their order.
func JudgeRate(rate uint64, idle time.Duration, samples []Sample) RateVerdict {
	if rate == 0 || idle <= 0 {
		return RateVerdict{}
	}
	var loaded []Sample
	for _, s := range samples {
		if s.loaded(rate) {
			loaded = append(loaded, s)
		}
	}
	loaded = loaded[max(0, len(loaded)-judged):]
	var sent []uint64
	var worst time.Duration
	for _, s := range loaded {
		if s.against(rate, idle) {
			sent, worst = append(sent, s.Sent), max(worst, s.Delay)
		}
	}
	if len(sent) < guilty {
		return RateVerdict{}
	}
	slices.Sort(sent)
	v := RateVerdict{TooHigh: true, Carries: sent[len(sent)/2] &^ 7}
	v.Text = fmt.Sprintf("rate %s is above the link's: under load the delay is %v, idle %v, and our own queue is short; the link carries about %s now",
		FormatRate(rate), worst.Round(time.Millisecond), idle.Round(time.Millisecond), FormatRate(v.Carries/1000*1000))
	return v
}

// loaded reports that enough is sent for the delay to say something of the rate.
func (s Sample) loaded(rate uint64) bool { return s.Sent >= rate/8 || s.Backlog > 3*1514 }

// against reports that s speaks against the rate: with load the delay is far above
// idle, and above what our own queue explains.
func (s Sample) against(rate uint64, idle time.Duration) bool {
	own := time.Duration(float64(s.Backlog) * 8 / float64(max(rate, 1)) * float64(time.Second))
	return rate > 0 && idle > 0 && s.loaded(rate) && s.Delay-idle-own > max(riseMin, idle/2)
}

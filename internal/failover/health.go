package failover

import (
	"fmt"
	"math/bits"
	"time"
)

// Verdict is what is thought of an uplink.
type Verdict string

// The verdicts.
const (
	Unknown  Verdict = "unknown"
	Up       Verdict = "up"
	Degraded Verdict = "degraded" // it carries, but badly
	Down     Verdict = "down"
)

// Health is what is known of an uplink. It is a value; times are since boot.
type Health struct {
	Verdict Verdict       `json:"verdict"`
	Since   time.Duration `json:"since"`         // of Verdict
	Why     string        `json:"why,omitempty"` // it is not up

	Good      int           `json:"good"`       // rounds in a row
	GoodSince time.Duration `json:"good_since"` // the first of them
	LastGood  time.Duration `json:"last_good"`  // 0: never
	Asked     time.Duration `json:"asked"`      // the oldest answer that a good one goes by
	Bad       int           `json:"bad"`        // rounds in a row
	BadSince  time.Duration `json:"bad_since"`  // the first of them
	LastWhy   string        `json:"last_why,omitempty"`
	NoRoute   bool          `json:"no_route,omitzero"` // nothing could be sent in the last round
	Seen      time.Duration `json:"seen"`              // the last round; 0: none
	Usual     time.Duration `json:"usual"`             // its time without load
	Slow      int           `json:"slow"`              // rounds that took much longer, less those that did not
	RTT       time.Duration `json:"rtt,omitzero"`      // of the last good round
	Loaded    bool          `json:"loaded,omitempty"`  // our own upload filled it in the last round, whose time says nothing

	// Gone is the reason the kernel gives for there being no link, "" when there is
	// one, since GoneSince.
	Gone      string        `json:"gone,omitempty"`
	GoneSince time.Duration `json:"gone_since,omitzero"`

	History uint64 `json:"history"` // of the last 64 rounds, the last in bit 0: 1 is bad
	Rounds  int    `json:"rounds"`  // looked at
}

// saw returns what is known after a round.
func (h Health) saw(r Rules, d Round) Health {
	h.History <<= 1
	h.Rounds++
	h.Seen = max(h.Seen, d.At)
	h.Loaded, h.NoRoute = d.Loaded, d.NoRoute
	if !d.OK {
		h.History |= 1
		if d.At < h.LastGood { // it was known late that nothing came: something has since
			return h
		}
		if h.Bad == 0 {
			h.BadSince = d.At
		}
		h.Bad++
		h.Good, h.LastWhy = 0, d.Why
		return h
	}
	if h.Good == 0 {
		h.GoodSince = d.At
	}
	h.Good++
	h.Bad, h.LastGood, h.Asked = 0, max(h.LastGood, d.At), max(h.Asked, d.At-d.Age)
	if d.RTT > 0 {
		h.RTT = d.RTT
	}
	return h.timed(r, d)
}

// timed looks at how long a good round took. The usual time follows a shorter one
// at once and a longer one slowly, so that it is that of an empty link; after an
// hour or so even a much longer one is usual.
func (h Health) timed(r Rules, d Round) Health {
	if d.Loaded || d.RTT <= 0 {
		return h
	}
	weight := 0.001
	switch {
	case h.Usual == 0:
		h.Usual = d.RTT
	case float64(d.RTT) > r.SlowFactor*float64(h.Usual) && d.RTT > h.Usual+r.SlowBy:
		h.Slow = min(h.Slow+1, r.Slow)
		weight = 0.0001
	default:
		h.Slow = max(h.Slow-1, 0)
	}
	if d.RTT < h.Usual {
		weight = 0.5
	}
	h.Usual += time.Duration(weight * float64(d.RTT-h.Usual))
	return h
}

// ailing is for how long it has been what it is now, when that is down: since the first
// bad round in a row, or since the kernel has had no link.
func (h Health) ailing(now time.Duration) (d time.Duration) {
	if h.Verdict == Down && h.Bad > 0 {
		d = now - h.BadSince
	}
	if h.Verdict == Down && h.Gone != "" {
		d = max(d, now-h.GoneSince)
	}
	return d
}

// badOf counts the bad ones among the last n rounds, 64 at most.
func (h Health) badOf(n int) int { return bits.OnesCount64(h.History & (1<<min(n, 64) - 1)) }

// judged returns h with the verdict that its evidence gives now, and whether it is
// another one.
func (h Health) judged(r Rules, now time.Duration) (Health, bool) {
	if h.Verdict == Down && h.risen(r) {
		h.History = 0 // the rounds that it was down for say nothing of it any more
	}
	v, why := h.verdict(r, now)
	h.Why = why
	if v == h.Verdict {
		return h, false
	}
	h.Verdict, h.Since = v, now
	return h, true
}

// verdict is that of the rules, with the one that fired.
func (h Health) verdict(r Rules, now time.Duration) (Verdict, string) {
	span := min(int(r.LossOver/r.Interval), 64)
	share := float64(h.badOf(span)) / float64(span)
	switch bad := h.badOf(r.Of); {
	case h.Gone != "" && now-h.GoneSince >= r.Debounce:
		return Down, h.Gone
	case h.Bad >= r.Down:
		return Down, fmt.Sprintf("%d rounds in a row failed, the last: %s", h.Bad, h.LastWhy)
	case bad >= r.BadOf && h.Bad > 0:
		return Down, fmt.Sprintf("%d of the last %d rounds failed, the last: %s", bad, r.Of, h.LastWhy)
	case h.Verdict == Down && !h.risen(r):
		return Down, h.Why
	case h.Verdict == Unknown && h.Good < r.Rescue:
		return Unknown, "not looked at long enough"
	case share >= r.Loss,
		h.Verdict == Degraded && h.Slow == 0 && !h.risen(r): // less loss by chance is no end of it
		return Degraded, fmt.Sprintf("%.0f %% of the last %d rounds failed", 100*share, span)
	case h.Slow >= r.Slow, h.Verdict == Degraded && h.Slow > 0:
		return Degraded, fmt.Sprintf("rounds take far longer than its usual %v", h.Usual.Round(time.Millisecond))
	}
	return Up, ""
}

// risen reports that one that was down is good for long enough.
func (h Health) risen(r Rules) bool {
	return h.Good >= r.Up && h.Seen-h.GoodSince >= r.UpFor && h.Gone == ""
}

// answers reports that it could carry traffic now, if nothing better can: the last
// rounds were good, and the kernel has a link.
func (h Health) answers(r Rules, now time.Duration) bool {
	return h.Gone == "" && h.Good >= r.Rescue && now-h.LastGood <= r.Fresh
}

// LossPercent is the share of bad rounds among the last n, 64 at most.
func (h Health) LossPercent(n int) float64 {
	n = min(n, 64, h.Rounds)
	return 100 * float64(h.badOf(n)) / float64(max(n, 1))
}

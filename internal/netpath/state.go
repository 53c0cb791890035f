package netpath

import (
	"cmp"
	"slices"
	"time"
)

// state is all a chooser knows. The methods of Config below are pure functions
// from one state to the next.
type state struct {
	paths              []pathState
	head               int       // the path requests go by now, trials aside
	since              time.Time // head is it since then; zero before the first change
	seen               time.Time // when the times on a fallback were last summed
	wall               time.Time // the right time at seen, which windows follow
	planned, unplanned time.Duration
	still              []Still
}

// pathState is what is known of one path. The zero value is one that is trusted.
type pathState struct {
	untrusted bool
	trustedAt time.Time     // of the last return; zero: there was none
	failback  time.Duration // that its next return has to stand; 0: as configured
	oks       int           // in a row, while untrusted
	firstOK   time.Time     // of these
	trialAt   time.Time     // while untrusted: when a request is to try it
	shut      bool          // its breaker lets nothing through until trialAt
	held      bool          // that is somebody's will

	window, closing span // of all windows, and of those that close it
	inWindow        bool

	sent, bytes int64
	onFallback  time.Duration // it was the head in place of the first path
	askedUntil  time.Time     // its server wants nothing until then
}

// span is the window a path was in at the moment at, or the next then. A zero end
// means none.
type span struct{ at, start, end time.Time }

// holds reports whether the window holds at wall, if that was looked at last.
func (s span) holds(wall time.Time) bool { return !s.end.IsZero() && !wall.Before(s.start) }

// outdated reports whether wall lies outside of what s tells about: the wall clock
// may be set back, too.
func (s span) outdated(wall time.Time) bool { return wall.Before(s.at) || !wall.Before(s.end) }

const (
	trustOKs    = 5                // answers in a row that a return needs at least
	failbackMax = 10 * time.Minute // that doubling leads to
	steady      = 10 * time.Minute // of trust that take one doubling back
)

// at brings s up to now: it sums the times on a fallback and of standing still, and
// looks at the windows.
// What it returns shares nothing with s.
func (c Config) at(s state, now time.Time) state {
	s.paths = slices.Clone(s.paths)
	causes, stood := c.stood(s, now)
	if stood > 0 {
		s.still = added(s.still, causes, stood)
	}
	if d := now.Sub(s.seen) - stood; s.head > 0 && d > 0 { // not after a clock that was set back
		s.paths[s.head].onFallback += d
		if s.paths[0].inWindow {
			s.planned += d
		} else {
			s.unplanned += d
		}
	}
	s.seen, s.wall = now, now.Round(0)
	if c.Skew != nil {
		s.wall = s.wall.Add(c.Skew())
	}
	for i := range s.paths {
		s.paths[i].look(c.Windows, c.Names[i], s.wall, now)
	}
	return s.headed(c, now)
}

// look notes whether p is in a window. One that has ended takes the trust away,
// also if nobody called from its beginning to its end.
func (p *pathState) look(ws Windows, name string, wall, now time.Time) {
	if p.window.outdated(wall) {
		ended := !p.window.end.IsZero() && !wall.Before(p.window.end)
		p.window = ws.spanAt(name, wall)
		if ended && !p.untrusted && !p.window.holds(wall) {
			p.distrust(now)
		}
	}
	if p.closing.outdated(wall) {
		p.closing = ws.Closing().spanAt(name, wall)
	}
	p.inWindow = p.window.holds(wall)
}

// headed notes which path is the head at now.
func (s state) headed(c Config, now time.Time) state {
	head := 0
	if order := c.preference(s, now); len(order) > 0 {
		head = order[0]
	}
	if head != s.head {
		s.head, s.since = head, now
	}
	return s
}

// preference returns the paths that are open and within their quotas, best first:
// outside a window before inside, trusted before untrusted before shut, then as
// configured.
func (c Config) preference(s state, now time.Time) []int {
	total := s.total()
	order := make([]int, 0, len(s.paths))
	for i, p := range s.paths {
		if c.Quota[i].allows(p.sent, p.bytes, total) && !p.closing.holds(s.wall) {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(i, j int) int {
		return cmp.Compare(s.paths[i].rank(now), s.paths[j].rank(now))
	})
	return order
}

// total returns how many requests went by all paths.
func (s state) total() (n int64) {
	for _, p := range s.paths {
		n += p.sent
	}
	return n
}

func (p pathState) rank(now time.Time) int {
	rank := 0
	if p.untrusted {
		rank = 1
		if p.shut && now.Before(p.trialAt) {
			rank = 2
		}
	}
	if p.inWindow {
		rank += 3
	}
	return rank
}

// order is the preference for one request, with a path in front that the request
// is to try. u is uniform in [0, 1).
func (c Config) order(s state, now time.Time, u float64) (next state, order []int, trial bool) {
	s = c.at(s, now)
	order = c.preference(s, now)
	at := c.trial(s, order, now, u)
	if at < 0 {
		return s, order, false
	}
	i := order[at]
	copy(order[1:], order[:at])
	order[0] = i
	if p := &s.paths[i]; p.untrusted && !now.Before(p.trialAt) {
		p.shut, p.trialAt = false, now.Add(c.pace(*p))
	}
	return s.headed(c, now), order, at > 0
}

// trial returns which of order a request is to try first, or -1. A path inside
// its window is not tried before one outside.
func (c Config) trial(s state, order []int, now time.Time, u float64) int {
	fit := 0
	for fit < len(order) && s.paths[order[fit]].inWindow == s.paths[order[0]].inWindow {
		fit++
	}
	canary := -1
	for at, i := range order[:fit] {
		p := s.paths[i]
		if p.untrusted && !now.Before(p.trialAt) {
			return at
		}
		if p.untrusted && at > 0 && canary < 0 && u < c.Canary {
			canary = at
		}
	}
	if canary < 0 && fit > 1 && !s.paths[order[1]].untrusted && u >= 1-c.CanaryFallback {
		return 1
	}
	return canary
}

// refused notes that the breaker of a path let nothing through.
func (c Config) refused(s state, path int, retryAt, now time.Time) state {
	s = c.at(s, now)
	p := &s.paths[path]
	if !p.untrusted {
		young := !p.trustedAt.IsZero() && now.Sub(p.trustedAt) < steady
		p.distrust(now)
		if young {
			p.double(c)
		}
	}
	p.oks, p.shut = 0, true
	// Counted from now, so that a wall clock set back later does not matter.
	p.trialAt = now.Add(retryAt.Sub(now))
	return s.headed(c, now)
}

// done notes the end of a request.
func (c Config) done(s state, path int, v Verdict, bytes int, now time.Time) state {
	s = c.at(s, now)
	p := &s.paths[path]
	if v != Neutral || bytes > 0 {
		p.sent++
		p.bytes += int64(bytes)
	}
	switch {
	case !p.untrusted || v == Neutral:
	case v == Fail:
		// Of many that fail at once, or while it stays down, none but the first
		// tells of a return that did not last.
		if p.oks > 0 {
			p.double(c)
		}
		p.oks = 0
	default:
		if p.shut { // somebody else's probe closed the breaker
			p.shut, p.trialAt = false, now.Add(c.pace(*p))
		}
		if p.oks == 0 || now.Before(p.firstOK) {
			p.firstOK = now
		}
		if p.oks++; p.oks >= trustOKs && now.Sub(p.firstOK) >= c.hold(*p) {
			p.untrusted, p.trustedAt = false, now
		}
	}
	return s.headed(c, now)
}

// distrust ends the trust in p, which is to be tried at once.
func (p *pathState) distrust(now time.Time) {
	if times := now.Sub(p.trustedAt) / steady; times > 0 {
		p.failback >>= min(times, 32)
	}
	p.untrusted, p.oks, p.trialAt, p.shut = true, 0, now, false
}

func (p *pathState) double(c Config) { p.failback = min(2*c.hold(*p), max(failbackMax, c.Failback)) }

// hold is how long p has to be well before it is trusted.
func (c Config) hold(p pathState) time.Duration { return max(p.failback, c.Failback) }

// pace is the time between trials: where requests are few, the canary share of
// them would take hours to tell what the hold could.
func (c Config) pace(p pathState) time.Duration { return c.hold(p) / trustOKs }

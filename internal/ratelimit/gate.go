// Package ratelimit holds back requests to a path on the server's behalf.
package ratelimit

import (
	"math"
	"sync"
	"time"
)

// A gate that opens lets one request through in the first step, then twice as
// many in each further one. After slowSteps of them it is open for all: by then
// a step would release more than the largest number of requests in flight.
const (
	step      = 100 * time.Millisecond
	slowSteps = 7
)

// Gate is shut for every user of a path when the server asks for a pause, first
// attempts and retries alike: otherwise one answer of "too many requests" stops
// one worker while the others go on. The zero value is open. Safe for
// concurrent use.
type Gate struct {
	mu      sync.Mutex
	until   time.Time // guarded by mu; zero when fully open
	started time.Time // guarded by mu; first ask after until; zero before
	current int       // guarded by mu; step of the slow start
	left    int       // guarded by mu; releases left in that step
}

// Close shuts the gate until the given time. It never shortens a pause: of two
// answers under way at once the longer one counts. A time not after now does
// nothing.
func (g *Gate) Close(until, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !until.After(now) || !until.After(g.until) {
		return
	}
	g.until, g.started = until, time.Time{}
}

// Delay returns 0 when the caller may send now, which takes a place in the slow
// start, or else how long to wait before asking again. u, uniform in [0, 1),
// spreads the askers over one step so that they do not return together.
func (g *Gate) Delay(now time.Time, u float64) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.until.IsZero() {
		return 0
	}
	if now.Before(g.until) {
		return spread(g.until.Sub(now), u)
	}
	// The slow start begins with the first ask, not with the end of the pause:
	// a crowd that arrives late would find it over otherwise.
	if g.started.IsZero() {
		g.started, g.current, g.left = now, 0, 1
	}
	if n := now.Sub(g.started) / step; n >= slowSteps {
		g.until = time.Time{}
		return 0
	} else if int(n) > g.current { // askers' clock readings may arrive out of order
		g.current, g.left = int(n), 1<<n
	}
	if g.left > 0 {
		g.left--
		return 0
	}
	next := g.started.Add(time.Duration(g.current+1) * step)
	return spread(next.Sub(now), u)
}

// spread returns d plus a part of one step; at least 1ns and never wrapped.
func spread(d time.Duration, u float64) time.Duration {
	var extra time.Duration
	if u > 0 {
		extra = time.Duration(min(u, 1) * float64(step))
	}
	if d > math.MaxInt64-extra {
		return math.MaxInt64
	}
	return max(d+extra, 1)
}

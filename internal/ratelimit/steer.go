package ratelimit

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"
)

const (
	// underHint is the part of a published rate that is used: the clocks of two
	// machines do not agree to the last call.
	underHint = 0.99
	// longestPause bounds what a published reset can hold back. Longer pauses
	// are the gate's.
	longestPause = time.Minute
	// look is how long Wait sleeps at most before it looks at the rate again.
	look = 250 * time.Millisecond
)

// Steer holds back the calls on one path to the rate its server publishes, or to
// the ceiling learnt from its refusals, whichever is lower. It has to be told of
// every answer. Safe for concurrent use.
type Steer struct {
	turn chan struct{} // held by the first in line, the only one with a timer

	mu        sync.Mutex
	pace      pace      // guarded by mu; at the rate published or learnt
	learnt    ceiling   // guarded by mu
	published published // guarded by mu
	last      time.Time // guarded by mu; the last call let through
}

// published is the last hint, as a rate.
type published struct {
	rate   float64 // calls per second; 0: none
	limit  float64
	window time.Duration // as said, or the longest reset seen with this limit
	pause  time.Time     // nothing is left before
	until  time.Time     // the hint is too old after
}

// NewSteer returns a Steer for one path.
func NewSteer() *Steer { return &Steer{turn: make(chan struct{}, 1)} }

// Wait returns nil when a call may be sent, callers in the order they came. It
// returns ctx's error when that ends first, and at once an error that is
// [context.DeadlineExceeded] when the next turn would come after ctx's deadline.
func (s *Steer) Wait(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	for held := false; ; held = true {
		now := time.Now()
		d := s.ask(now, held)
		if d == 0 {
			return nil
		}
		if end, ok := ctx.Deadline(); ok && now.Add(d).After(end) {
			return fmt.Errorf("the rate allows a call in %s only: %w", d, context.DeadlineExceeded)
		}
		timer := time.NewTimer(min(d, look))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

// Rate returns the calls per second let through at most now; 0: as many as come.
func (s *Steer) Rate(now time.Time) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	rate := s.rate(now, 0)
	if math.IsInf(rate, 1) {
		return 0
	}
	return rate
}

// OK tells of an answer that was not a refusal, whatever else it was.
func (s *Steer) OK() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.learnt.ok()
}

// Throttled tells of an answer "too many requests", received now, to a call
// sent at sent. Calls that were under way when the rate was last cut count for
// nothing. after is the pause the server asks for, 0 for none: as long, but a
// minute at most, nothing is let through, nor is what has passed the [Gate].
func (s *Steer) Throttled(sent, now time.Time, after time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	after = min(max(after, 0), longestPause)
	s.learnt.refused(s.rate(now, now.Sub(sent)), sent, now, after)
}

// Hint tells what an answer said about the server's limits. It replaces what
// was said before, and is forgotten when nothing follows it.
func (s *Steer) Hint(h Hint, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &s.published
	if h.Window == 0 {
		// The window is not said, but no reset is further away than it is long.
		h.Window = h.Reset
		if h.Limit == p.limit {
			h.Window = max(h.Window, p.window)
		}
	}
	before := s.rate(now, 0)
	*p = published{limit: h.Limit, window: h.Window, until: now.Add(max(2*h.Window, h.Reset, 5*time.Second))}
	switch rate := h.rate(); {
	case rate == 0:
		p.pause = now.Add(min(h.Reset, longestPause))
		if h.Limit > 0 {
			p.rate = underHint * h.Limit / h.Window.Seconds()
		}
	case !math.IsInf(rate, 1):
		p.rate = underHint * max(rate, 1/longestPause.Seconds())
	}
	if p.rate > 0 && p.rate < 0.9*before {
		s.learnt.cut = now // what was sent faster than this says nothing about it
	}
}

// ask returns 0 and counts the call when it may be sent now, or else how long to
// wait before asking again. held says that this call has waited already.
func (s *Steer) ask(now time.Time, held bool) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := max(s.pace.delay(now), s.learnt.wait.Sub(now), s.published.pause.Sub(now))
	if d > 0 {
		return d
	}
	if s.last.IsZero() {
		s.last, s.learnt.since = now, now
	}
	rate, learnt := s.rate(now, 0), s.learnt.rate(0)
	if held && learnt <= rate {
		s.learnt.grow(now.Sub(s.last))
	}
	if !math.IsInf(rate, 1) {
		s.pace.take(now, rate)
	}
	s.last = now
	return 0
}

// rate returns the lower of the published and the learnt rate, the latter as it
// was some time ago. requires mu.
func (s *Steer) rate(now time.Time, ago time.Duration) float64 {
	rate := s.learnt.rate(ago)
	if s.published.rate > 0 && now.Before(s.published.until) {
		rate = min(rate, s.published.rate)
	}
	return rate
}

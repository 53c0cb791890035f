package breaker

import (
	"strings"
	"time"
)

// Force is an operator's will: the breaker stays where he wants it, whatever the
// requests say, until a time.
type Force struct {
	Phase  Phase     `json:"phase"` // Open or Closed
	Until  time.Time `json:"until,omitzero"`
	Reason string    `json:"reason,omitzero"`
	By     string    `json:"by,omitzero"`
	At     time.Time `json:"at,omitzero"`
}

const (
	// MaxForce is the longest that a force lasts. It bounds what a damaged file
	// or a clock that was set can make of it, too.
	MaxForce = 24 * time.Hour
	// MaxText is the most bytes of a reason and of a name.
	MaxText = 200
)

// Holds reports whether the force is in effect at now, by the store's clock.
func (f Force) Holds(now time.Time) bool { return now.Before(f.Until) }

// Force puts s where f says, for [MaxForce] at most; longer texts are cut. While
// it holds, Allow refuses all when open, whatever OpenMax and Deadline say, and
// lets all pass when closed, and no verdict counts. When its time is over an open
// breaker lets a probe through, as after any open time, and a closed one goes on
// with no failures counted. A phase that is neither Open nor Closed changes
// nothing.
func (c Config) Force(s State, f Force, now time.Time) State {
	if f.Phase != Open && f.Phase != Closed {
		return s
	}
	c, now = c.filled(), plain(now)
	f.At, f.Until = now, notAfter(plain(f.Until), now.Add(MaxForce))
	f.Reason, f.By = cut(f.Reason), cut(f.By)
	s = c.sane(s, now).put(f.Phase, now)
	s.Force = f
	return s
}

// Reset closes the breaker and forgets failures, force and the changes of late.
// One that has nothing to forget stays as it is.
func (c Config) Reset(s State, now time.Time) State {
	c, now = c.filled(), plain(now)
	s = c.sane(s, now)
	if s.Phase == Closed && s.Failures == 0 && s.Changes == (Changes{}) && s.Force == (Force{}) {
		return s
	}
	s = s.put(Closed, now)
	s.Changes, s.Force = Changes{}, Force{}
	return s
}

// manyGenerations is by how many an operator's word goes ahead, more than a store
// that could not be written has seen in memory meanwhile: of two states the newer
// generation stays.
const manyGenerations = 1 << 16

// put returns s in phase p by an operator's hand: always a new generation, so
// that answers under way count for nothing.
func (s State) put(p Phase, now time.Time) State {
	if s.Phase != p {
		s = s.enter(p, now)
	}
	s.Failures, s.FirstFailure, s.OpenUntil = 0, time.Time{}, time.Time{}
	s.Generation += manyGenerations
	return s
}

// lapse ends a force whose time is over. An open breaker has no open time left
// then. What was sent while it was forced closed is not to count.
func (s State) lapse() State {
	s.Force = Force{}
	s.Failures, s.FirstFailure = 0, time.Time{}
	s.Generation++
	return s
}

func cut(s string) string {
	return strings.ToValidUTF8(s[:min(len(s), MaxText)], "")
}

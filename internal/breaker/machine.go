package breaker

import "time"

// Config tunes a breaker. Zero values of all but Jitter, Eager and Deadline stand for those
// of [DefaultConfig].
type Config struct {
	Threshold  int           // consecutive failures that open it
	Window     time.Duration // within which they have to fall, counted from the first
	Open       time.Duration // time it stays open; doubles with each failed probe
	OpenMax    time.Duration // up to this
	ProbeLease time.Duration // a probe unanswered for so long counts as lost; longer than a request may take
	Jitter     float64       // share, 0 to 1, by which an open time may fall short
	Fresh      time.Duration // age at which a copy of the state is too old, and so how late others' doings are seen

	// Eager, if not nil, says whether failures are expected at now: half the
	// Threshold, rounded up, is enough then. [Breaker] asks it, outside its
	// locks; the functions below ask nobody.
	Eager func(now time.Time) bool
	// Deadline, if not zero, is when it is too late for everything: a probe comes
	// at the latest when half the time from the opening to it has gone by.
	Deadline time.Time
	eager    bool // what it said
}

// DefaultConfig returns the command's defaults.
func DefaultConfig() Config {
	return Config{
		Threshold:  8,
		Window:     time.Minute,
		Open:       30 * time.Second,
		OpenMax:    5 * time.Minute,
		ProbeLease: 15 * time.Second,
		Jitter:     0.2,
		Fresh:      250 * time.Millisecond,
	}
}

// probePoll is how soon to ask again while someone else's probe is under way,
// plus up to as much again. Waiting for the end of the lease would leave every
// record parked long after a good probe has closed the breaker.
const probePoll = 250 * time.Millisecond

// forcePoll is the same while an operator holds the breaker open: he may let it
// go at any time.
const forcePoll = 500 * time.Millisecond

// Allow asks for leave to send one request. ok means yes, under next.Generation;
// in phase HalfOpen the request is the probe and next holds its lease. Otherwise
// retryAt is when to ask again. next has to be stored if it differs from s.
// u is uniform in [0, 1).
func (c Config) Allow(s State, now time.Time, u float64) (next State, ok bool, retryAt time.Time) {
	c, now = c.filled(), plain(now)
	s = c.sane(s, now)
	switch f := s.Force; {
	case f.Holds(now) && f.Phase == Open:
		return s, false, notAfter(poll(forcePoll, now, u), f.Until)
	case f.Holds(now):
		return s, true, time.Time{}
	case f != Force{}:
		s = s.lapse()
	}
	switch s.Phase {
	case Closed:
		return s, true, time.Time{}
	case Open:
		if until := c.probeAt(s); now.Before(until) {
			return s, false, until
		}
		until := s.OpenUntil
		s = s.enter(HalfOpen, now)
		if now.Before(until) { // a deadline hurries it; others' time goes on
			s.OpenUntil = until
		}
	case HalfOpen:
		if now.Before(s.ProbeUntil) {
			return s, false, notAfter(poll(probePoll, now, u), s.ProbeUntil)
		}
		if c.Deadline.IsZero() && now.Before(s.OpenUntil) { // a hurried probe was given back
			return s, false, s.OpenUntil
		}
		// The probe before was given back, or its sender died. A new
		// generation makes a late answer to it count for nothing.
		s.Generation++
	}
	s.ProbeUntil = now.Add(c.ProbeLease)
	return s, true, time.Time{}
}

// poll is when to ask again after d, or up to twice that: not all at once.
func poll(d time.Duration, now time.Time, u float64) time.Time {
	return now.Add(d + time.Duration(unit(u)*float64(d)))
}

// shortest is the least time between probes that a deadline leads to.
const shortest = time.Second

// probeAt is when an open breaker lets a probe through.
func (c Config) probeAt(s State) time.Time {
	left := c.Deadline.Sub(s.Since)
	if c.Deadline.IsZero() || left <= 0 {
		return s.OpenUntil
	}
	if hurry := s.Since.Add(max(left/2, shortest)); hurry.Before(s.OpenUntil) {
		return hurry
	}
	return s.OpenUntil
}

// Record applies the verdict on a request allowed under generation gen. One of
// another generation changes nothing: it tells of a time that is over. u,
// uniform in [0, 1), jitters the open time.
//
// Failures are counted from the first of a row; one that comes later than
// Window after it starts a new count. While a breaker is forced nothing counts.
func (c Config) Record(s State, gen uint64, v Verdict, now time.Time, u float64) State {
	if gen != s.Generation {
		return s
	}
	c, now = c.filled(), plain(now)
	s = c.sane(s, now)
	if s.Force != (Force{}) {
		return s
	}
	switch s.Phase {
	case Closed:
		switch v {
		case OK:
			s.Failures, s.FirstFailure = 0, time.Time{}
		case Fail:
			if s.Failures == 0 || now.Sub(s.FirstFailure) > c.Window {
				s.Failures, s.FirstFailure = 0, now
			}
			if s.Failures++; s.Failures >= c.threshold() {
				return c.open(s, now, u)
			}
		}
	case HalfOpen:
		switch v {
		case OK:
			s = s.enter(Closed, now)
			s.Changes = s.Changes.with(now)
			return s
		case Fail:
			if until := s.OpenUntil; now.Before(until) {
				s = s.enter(Open, now)
				s.OpenUntil = until
				return s
			}
			return c.open(s, now, u)
		default:
			// Given back, and a new generation: the same permit used
			// twice must not answer for the probe that follows.
			s.ProbeUntil = time.Time{}
			s.Generation++
		}
	}
	return s // in phase Open no permit is out
}

// threshold is that in force. The count of failures is kept as if it were the
// full one, so that it stands when eagerness ends.
func (c Config) threshold() int {
	if c.eager {
		return c.Threshold - c.Threshold/2
	}
	return c.Threshold
}

func (c Config) open(s State, now time.Time, u float64) State {
	if s.Phase == Closed {
		s.Changes = s.Changes.with(now)
	}
	s = s.enter(Open, now)
	s.Opens = min(s.Opens+1, mostOpens)
	s.OpenUntil = now.Add(c.openTime(s.Opens+s.Changes.above(now), u))
	return s
}

// mostOpens is past any doubling that still fits a Duration.
const mostOpens = 64

// openTime is min(OpenMax, Open * 2^(opens-1)), shortened by up to Jitter. It is
// not lengthened: OpenMax and the documented open time are promises.
func (c Config) openTime(opens int, u float64) time.Duration {
	d := min(c.Open, c.OpenMax)
	for ; opens > 1 && d < c.OpenMax; opens-- {
		if d >= c.OpenMax-d {
			d = c.OpenMax
			break
		}
		d *= 2
	}
	return max(d-time.Duration(unit(c.Jitter)*unit(u)*float64(d)), 1)
}

// sane bounds what a damaged file, another host or a clock that jumped can have
// left in s: no time lies further ahead than this breaker would have set it.
// What is too far in the past needs no repair, it is simply over.
func (c Config) sane(s State, now time.Time) State {
	if s.Phase < Closed || s.Phase > Open {
		s = State{Generation: s.Generation + 1, Transitions: s.Transitions, Force: s.Force}
	}
	if s.Force.Phase != Open && s.Force.Phase != Closed {
		s.Force = Force{}
	}
	s.Force.At = notAfter(s.Force.At, now)
	s.Force.Until = notAfter(s.Force.Until, now.Add(MaxForce))
	s.FirstFailure = notAfter(s.FirstFailure, now)
	s.OpenUntil = notAfter(s.OpenUntil, now.Add(c.OpenMax))
	s.ProbeUntil = notAfter(s.ProbeUntil, now.Add(c.ProbeLease))
	s.Since = notAfter(s.Since, now)
	s.Failures = min(max(s.Failures, 0), c.Threshold-1)
	s.Opens = min(max(s.Opens, 0), mostOpens)
	return s
}

func (c Config) filled() Config {
	d := DefaultConfig()
	if c.Threshold <= 0 {
		c.Threshold = d.Threshold
	}
	if c.Window <= 0 {
		c.Window = d.Window
	}
	if c.Open <= 0 {
		c.Open = d.Open
	}
	if c.OpenMax <= 0 {
		c.OpenMax = d.OpenMax
	}
	c.OpenMax = max(c.OpenMax, c.Open)
	if c.Fresh <= 0 {
		c.Fresh = d.Fresh
	}
	if c.ProbeLease <= 0 {
		c.ProbeLease = d.ProbeLease
	}
	return c
}

// plain returns t as it will read back from a file.
func plain(t time.Time) time.Time { return t.Round(0).UTC() }

func notAfter(t, limit time.Time) time.Time {
	if t.After(limit) {
		return limit
	}
	return t
}

// unit holds u in [0, 1]; NaN is 0.
func unit(u float64) float64 {
	if !(u > 0) {
		return 0
	}
	return min(u, 1)
}

package netpath

import (
	"cmp"
	"slices"
	"time"
)

// Cause is what keeps a path from being used.
type Cause int

// The causes.
const (
	BreakerOpen   Cause = iota + 1 // it lets nothing through
	ServerAsked                    // everyone is to wait
	InMaintenance                  // a window closes it
	OverQuota
	HeldOpen // somebody holds its breaker open
)

// Still is time in which no path could be used.
type Still struct {
	For    time.Duration
	Causes []Cause // by index of the path
}

// Stood returns the time up to now in which no path could be used, by its causes,
// the longest first.
func (c *Chooser) Stood(now time.Time) []Still {
	all := slices.Clone(c.at(now).still)
	slices.SortStableFunc(all, func(a, b Still) int { return cmp.Compare(b.For, a.For) })
	return all
}

// stood returns for how long no path could be used between the moment s is of and
// now, and what kept each; 0 when one could. A cause that ends before now ends it.
func (c Config) stood(s state, now time.Time) ([]Cause, time.Duration) {
	if s.seen.IsZero() {
		return nil, 0
	}
	until, total := now, s.total()
	for i, p := range s.paths {
		cause, end := p.blocked(s, c.Quota[i], total)
		if cause == 0 {
			return nil, 0
		}
		if !end.IsZero() && end.Before(until) {
			until = end
		}
	}
	causes := make([]Cause, len(s.paths))
	for i, p := range s.paths {
		causes[i], _ = p.blocked(s, c.Quota[i], total)
	}
	return causes, max(0, until.Sub(s.seen))
}

// blocked returns what keeps p from being used at the moment s is of, 0 for nothing,
// and when that ends; a zero time: not by itself.
func (p pathState) blocked(s state, q Quota, total int64) (Cause, time.Time) {
	switch now := s.seen; {
	case !q.allows(p.sent, p.bytes, total):
		return OverQuota, time.Time{}
	case p.closing.holds(s.wall):
		return InMaintenance, now.Add(p.closing.end.Sub(s.wall))
	case p.shut && now.Before(p.trialAt) && p.held:
		return HeldOpen, p.trialAt
	case p.shut && now.Before(p.trialAt):
		return BreakerOpen, p.trialAt
	case now.Before(p.askedUntil):
		return ServerAsked, p.askedUntil
	}
	return 0, time.Time{}
}

// added returns all with d more for these causes; all itself stays as it is.
func added(all []Still, causes []Cause, d time.Duration) []Still {
	all = slices.Clone(all)
	for i := range all {
		if slices.Equal(all[i].Causes, causes) {
			all[i].For += d
			return all
		}
	}
	return append(all, Still{d, causes})
}

// asked notes that the server of a path wants nothing until then. Of two answers
// the longer wait counts.
func (c Config) asked(s state, path int, until, now time.Time) state {
	s = c.at(s, now)
	if p := &s.paths[path]; until.After(p.askedUntil) {
		p.askedUntil = until
	}
	return s
}

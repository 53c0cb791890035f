package deadletter

import (
	"slices"
	"time"
)

// Filter chooses letters. Zero members choose all.
type Filter struct {
	Reasons       []string // any of these
	Statuses      []int    // any of these
	Station       string
	Key, SpotID   string
	Since, Before time.Time // of Letter.Time: not before Since, and before Before
}

// Match reports whether l satisfies every member that is set.
func (f Filter) Match(l Letter) bool {
	at := l.Time()
	switch {
	case len(f.Reasons) > 0 && !slices.Contains(f.Reasons, l.Reason):
	case len(f.Statuses) > 0 && !slices.Contains(f.Statuses, l.Status):
	case f.Key != "" && f.Key != l.Key:
	case f.SpotID != "" && f.SpotID != l.SpotID:
	case !f.Since.IsZero() && at.Before(f.Since):
	case !f.Before.IsZero() && !at.Before(f.Before):
	case f.Station != "" && f.Station != l.Station(): // the dearest test comes last
	default:
		return true
	}
	return false
}

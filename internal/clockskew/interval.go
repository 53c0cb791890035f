package clockskew

import (
	"net/http"
	"strconv"
	"time"
)

// interval is where an offset lies, ends included.
type interval struct{ lo, hi time.Duration }

// and is what lies in both. If nothing does ok is false, and lo - hi the gap.
func (a interval) and(b interval) (both interval, ok bool) {
	both = interval{max(a.lo, b.lo), min(a.hi, b.hi)}
	return both, both.lo <= both.hi
}

// mid is the middle, and within how far from it the ends are.
func (a interval) mid() (offset, within time.Duration) {
	within = (a.hi - a.lo + 1) / 2
	return a.hi - within, within
}

// sane rules out what no clock shows, and with it that durations overflow.
func (a interval) sane() bool {
	const century = 100 * 365 * 24 * time.Hour
	return -century < a.lo && a.lo <= a.hi && a.hi < century
}

// FromDate returns what one answer tells: what to add to our clock to have the
// server's, give or take within. known is false where it has no Date of its own.
func FromDate(h http.Header, sent, received time.Time) (offset, within time.Duration, known bool) {
	_, iv, known := measure(h, sent, received)
	if known {
		offset, within = iv.mid()
	}
	return offset, within, known
}

// measure reads a Date (RFC 9110 §6.6.1). It leaves out the parts of its second,
// and was written at some time between sent and received.
func measure(h http.Header, sent, received time.Time) (date time.Time, iv interval, ok bool) {
	date, err := http.ParseTime(h.Get("Date"))
	if age, aerr := strconv.Atoi(h.Get("Age")); err != nil || aerr == nil && age > 0 {
		return time.Time{}, interval{}, false // none, or that of a cache
	}
	took, wall := received.Sub(sent), received.Round(0).Sub(sent.Round(0))
	if took < 0 || (wall-took).Abs() > step {
		return time.Time{}, interval{}, false // the clock was set, or the machine slept
	}
	// Counted back from the end: the clock as it is now is to be compared.
	lo := date.Sub(received.Round(0))
	iv = interval{lo, lo + time.Second + max(took, wall)}
	return date, iv, iv.sane()
}

// kept is how long a measurement counts at least, and twice that at most, while
// there are newer ones. Without any it counts on: who waits for a window to end
// makes no requests.
const kept = 2 * time.Minute

// source is what one clock has shown: the intersection of all measurements since
// the first of now, and of those before.
type source struct {
	known       bool
	before, now interval
	since       time.Duration // the first of now came then
}

// where is where the offset lies. requires known.
func (s source) where() interval {
	both, _ := s.before.and(s.now)
	return both
}

// add takes in a measurement. One that contradicts the others ends them: a clock
// was set, or another server answers.
func (s *source) add(iv interval, at time.Duration) {
	_, ok := s.where().and(iv)
	switch {
	case !s.known || !ok:
		*s = source{true, iv, iv, at}
	case at-s.since >= kept:
		s.before, s.now, s.since = s.now, iv, at
	default:
		s.now, _ = s.now.and(iv)
	}
}

package uploader

import (
	"fmt"
	"time"
)

// closure is a maintenance window in which nothing starts on a path. Its times are
// by this machine's clock, which lacks skew to be right.
type closure struct {
	path     string
	from, to time.Time
	skew     time.Duration
}

func (c closure) String() string {
	const minutes = "2006-01-02T15:04Z07:00"
	return fmt.Sprintf("maintenance of %s from %s to %s", c.path, c.from.Add(c.skew).UTC().Format(minutes), c.to.Add(c.skew).UTC().Format(minutes))
}

// isClosed says that maintenance closes a path.
func (r *run) isClosed(p *Path, now time.Time) bool {
	if r.parts.Chooser == nil {
		return false
	}
	_, _, ok := r.parts.Chooser.Closed(r.paths[p].index, now)
	return ok
}

// closure returns the one that ends first of those that hold.
func (r *run) closure(now time.Time) (first closure, ok bool) {
	if r.parts.Chooser == nil {
		return closure{}, false
	}
	for i := range r.parts.Paths {
		from, to, closed := r.parts.Chooser.Closed(i, now)
		if closed && (!ok || to.Before(first.to)) {
			first, ok = closure{path: r.parts.Paths[i].Name, from: from, to: to}, true
		}
	}
	if ok && r.parts.Skew != nil {
		first.skew = r.parts.Skew()
	}
	return first, ok
}

// noPath parks a record for which there is no path now. retryAt is when a breaker
// is to be asked again, zero when no path may be used.
func (r *run) noPath(j *job, retryAt, now time.Time) bool {
	c, closed := r.closure(now)
	switch {
	case closed && retryAt.IsZero():
		return r.allClosed(j, c, now)
	case closed && c.to.Before(retryAt):
		retryAt = c.to
	case retryAt.IsZero(): // all quotas are spent
		retryAt = now.Add(time.Second)
	}
	return r.allDown(j, retryAt)
}

// closedLook is how often a record that waits for the end of a window looks again:
// the clock on the wall, which windows follow, may be set meanwhile, and so may
// the windows.
const closedLook = 5 * time.Second

// allClosed parks a record until maintenance ends on the first of the paths, all of
// which it closes. When that is too far away the run is halted at once: whatever
// waits has lost nothing, and comes with the next one.
func (r *run) allClosed(j *job, c closure, now time.Time) bool {
	left := c.to.Sub(now)
	if _, inTime := r.slice(now.Add(left)); left > r.cfg.HaltAfter || !inTime {
		r.fault(fmt.Errorf("%w: %s", ErrClosed, c))
		r.finish(j, Halted, "", time.Time{})
		return false
	}
	r.haltMu.Lock()
	r.downSince = time.Time{} // what is closed is not seen to be down
	told := r.toldClosed
	r.toldClosed = c.to
	r.haltMu.Unlock()
	if !c.to.Equal(told) {
		r.event(Event{Level: Warning, Path: c.path, Message: "waiting for the end of the " + c.String()})
	}
	return r.shut(j, min(left, closedLook), c.String())
}

package uploader

import (
	"errors"
	"fmt"
	"time"
)

// ErrNoToken tells that there was no token to send for too long.
var ErrNoToken = errors.New("no token for too long")

// maxRenewals is how often in a row one record may be refused for its token while
// others with the same token are not.
const maxRenewals = 3

// unauthorised decides what becomes of a record that the API refused for its
// token: with another token it goes again, at once and for nothing. When there is
// no other, or others did not help either, the run ends.
func (r *run) unauthorised(j *job, p *Path, out Outcome, started time.Time) (park bool) {
	j.remember(p, started, out, 0)
	switch {
	case out.NoToken:
		return r.lack(j, out)
	case out.Renewed && j.renewals < maxRenewals:
		j.renewals++
		return r.park(j, 0, j.problem)
	}
	why := j.problem
	if out.Err != nil {
		why += "; " + out.Err.Error()
	}
	r.fault(fmt.Errorf("%w: %s: %s", ErrAuth, p.Name, why))
	r.finish(j, Halted, "", time.Time{})
	return false
}

// lack parks a record for want of a token, or of something this machine has run out
// of. It costs neither an attempt nor budget; going on for too long it ends the run.
func (r *run) lack(j *job, out Outcome) bool {
	now := time.Now()
	r.haltMu.Lock()
	if r.lacking.IsZero() {
		r.lacking = now
		r.event(Event{Level: Warning, Message: describe(Outcome{Err: out.Err}), Wait: out.RetryAfter})
	}
	haltAt := r.lacking.Add(r.cfg.HaltAfter)
	r.haltMu.Unlock()
	if !now.Before(haltAt) {
		err := ErrNoToken
		if out.Local {
			err = ErrLocal
		}
		r.fault(fmt.Errorf("%w (%s): %w", err, r.cfg.HaltAfter, out.Err))
		r.finish(j, Halted, "", time.Time{})
		return false
	}
	wait := min(max(out.RetryAfter, time.Second), haltAt.Sub(now))
	if out.Local { // others may have what it lacks
		return r.park(j, wait, out.Err.Error())
	}
	return r.shut(j, wait, out.Err.Error())
}

// lacksNothing notes that a request could be made.
func (r *run) lacksNothing() {
	r.haltMu.Lock()
	r.lacking = time.Time{}
	r.haltMu.Unlock()
}

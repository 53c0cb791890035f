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
		return r.noToken(j, out)
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

// noToken parks a record until a token is asked for again, as is every other. It
// costs neither an attempt nor budget; going on for too long it ends the run.
func (r *run) noToken(j *job, out Outcome) bool {
	now := time.Now()
	r.haltMu.Lock()
	if r.tokenless.IsZero() {
		r.tokenless = now
		r.event(Event{Level: Warning, Message: describe(Outcome{Err: out.Err}), Wait: out.RetryAfter})
	}
	haltAt := r.tokenless.Add(r.cfg.HaltAfter)
	r.haltMu.Unlock()
	if !now.Before(haltAt) {
		r.fault(fmt.Errorf("%w (%s): %w", ErrNoToken, r.cfg.HaltAfter, out.Err))
		r.finish(j, Halted, "", time.Time{})
		return false
	}
	return r.shut(j, min(out.RetryAfter, haltAt.Sub(now)), out.Err.Error())
}

// hasToken notes that there is one again.
func (r *run) hasToken() {
	r.haltMu.Lock()
	r.tokenless = time.Time{}
	r.haltMu.Unlock()
}

package uploader

import "time"

// held asks what holds the run.
func (r *run) held(now time.Time) (why string, held bool) {
	if r.parts.Hold == nil {
		return "", false
	}
	return r.parts.Hold.Held(now)
}

// holdLook is how often a record that is held asks again.
const holdLook = time.Second

// hold parks a record while the run is held. Only the deadline bounds that, and no
// patience with paths: none of them is asked meanwhile, so none is seen to be down.
func (r *run) hold(j *job, why string) bool {
	r.haltMu.Lock()
	r.downSince = time.Time{}
	r.haltMu.Unlock()
	return r.shut(j, holdLook, why)
}

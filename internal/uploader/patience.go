package uploader

import (
	"fmt"
	"sync"
	"time"

	"trafficup/internal/histogram"
)

// pathState is what the run remembers of a path between answers.
type pathState struct {
	index int // of the path

	mu        sync.Mutex
	throttled time.Time // guarded by mu; when the last burst of throttles was counted
	rounds    int       // guarded by mu; bursts since the last success
	away      time.Time // guarded by mu; until when other paths are better: the server said so
	patience  int       // guarded by mu; answers in a row that asked for more than the cap
	took      bool      // guarded by mu; it took a record in this run
	misset    bool      // guarded by mu; its last outcome was a fault of configuration
	poison    poison    // has a mutex of its own

	answers histogram.Histogram // guarded by mu; how long they took
	count   int                 // guarded by mu; of them
}

// maxPatience is how often in a row a path may ask for more patience than the cap
// while there is no other: one absurd answer does not end a night, the same again
// and again does.
const maxPatience = 3

// sentAway notes that a path asked for more patience than there is, and that
// there was no other; when that goes on the run ends.
func (r *run) sentAway(p *Path, out Outcome) {
	s := r.paths[p]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.patience++
	if s.patience >= maxPatience {
		r.fault(fmt.Errorf("%w: it asks for %s of patience, time after time", ErrHalted, inWords(out.RetryAfter)))
	}
}

// another says that there is a path beside p that has not asked for patience, nor
// is closed.
func (r *run) another(p *Path, now time.Time) bool {
	for i := range r.parts.Paths {
		if q := &r.parts.Paths[i]; q != p && !r.isAway(q, now) && !r.isClosed(q, now) {
			return true
		}
	}
	return false
}

// isAway says that other paths go before this one.
func (r *run) isAway(p *Path, now time.Time) bool {
	s := r.paths[p]
	s.mu.Lock()
	defer s.mu.Unlock()
	return now.Before(s.away)
}

// throttle closes the path's gate when the server asked for less, and says
// what the answer means for the breaker: answers to requests that were already
// under way when the first of them came back are one message, not many.
func (r *run) throttle(p *Path, out Outcome, started, now time.Time) (time.Duration, Verdict) {
	s := r.paths[p]
	s.mu.Lock()
	defer s.mu.Unlock()
	if !out.Throttled {
		if out.Class == ClassAcked {
			s.rounds, s.patience = 0, 0
		}
		return 0, out.Verdict
	}
	verdict := out.Verdict
	if !started.After(s.throttled) {
		verdict = VerdictNeutral
	} else {
		s.throttled = now
		s.rounds++
	}
	wait := r.cfg.Waits.Wait(max(s.rounds, 1), r.parts.Rand())
	if out.HasRetryAfter {
		// "now", or a date gone by, is no leave to hammer: it waits the floor.
		wait = max(r.cfg.Waits.Wait(1, 0), min(out.RetryAfter, r.cfg.RetryAfterCap))
	}
	if out.HasRetryAfter && (out.Status == 503 || out.RetryAfter > r.cfg.RetryAfterCap) {
		s.away = now.Add(wait)
	}
	// Without a word from the server the path's limiter finds the pace; the
	// gate would hold up all for a guess.
	if out.HasRetryAfter || p.Limiter == nil {
		p.Gate.Close(now.Add(wait), now)
	}
	return wait, verdict
}

// poison counts rejections in a row that carry one status: then it is the run
// that is wrong, the schema or the path, and not the records.
type poison struct {
	mu     sync.Mutex
	status int // guarded by mu
	count  int // guarded by mu
}

func (p *poison) dose(status int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if status != p.status {
		p.status, p.count = status, 0
	}
	p.count++
	return p.count
}

func (p *poison) cured() {
	p.mu.Lock()
	p.count = 0
	p.mu.Unlock()
}

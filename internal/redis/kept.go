package redis

import (
	"context"
	"errors"
	"time"

	"trafficup/internal/breaker"
)

// keepFor is how long an opening is kept back that one machine's failures alone
// have led to, while there are others.
const keepFor = 2 * time.Second

// several stands for more than one machine in document.Voter.
const several = "+"

// errKept says that a change is not to be written yet.
var errKept = errors.New("kept back")

// kept is an opening that only this machine knows of. It has stopped itself; the
// others are stopped when one of them fails, too, or when none has succeeded in
// keepFor. A success of another's begins the shared count anew: that shows that the
// trouble is this machine's alone, and stays with it until it succeeds.
type kept struct {
	since    time.Time // zero: nothing is
	failures int       // shared at that time
	over     bool      // it is to be written
	alone    bool      // it is not, ever
}

// back reports whether changes are to stay here.
func (k kept) back() bool { return !k.since.IsZero() && !k.over }

// voter says whose failures next counts, after held.
func (b *Breakers) voter(held document, next breaker.State) string {
	switch {
	case next.Phase != breaker.Closed || next.Failures == 0:
		return ""
	case held.State.Failures == 0 || held.Voter == b.me:
		return b.me
	}
	return several
}

// mine reports whether next opens the breaker by failures of this machine alone
// while there are others, for the first time.
func (b *Breakers) mine(e *entry, held document, next breaker.State) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return e.others && e.kept.since.IsZero() && held.Voter == b.me && held.State.Phase == breaker.Closed &&
		next.Phase == breaker.Open && next.Force == (breaker.Force{})
}

// keep applies fn here and begins to keep back what comes of it.
func (b *Breakers) keep(e *entry, fn func(breaker.State, time.Time) breaker.State) breaker.State {
	s := b.goOn(e, fn, false)
	b.mu.Lock()
	defer b.mu.Unlock()
	if e.local != nil {
		e.kept = kept{since: time.Now(), failures: e.shared.State.Failures}
	}
	return s
}

func (b *Breakers) keptBack(e *entry) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return e.kept.back()
}

// weigh decides what becomes of a kept opening when Redis holds d. requires
// Breakers.mu.
func (e *entry) weigh(d document) {
	k := &e.kept
	switch {
	case k.since.IsZero():
	case d.State.Phase != breaker.Closed || d.State.Force != (breaker.Force{}): // it is everybody's trouble
		e.local = nil
	case k.alone || k.over:
	case d.State.Failures < k.failures:
		k.alone = true
	case d.Voter == several || time.Since(k.since) >= keepFor:
		k.over = true
	}
}

// Settle writes what is kept back: nobody will be there to do it later.
func (b *Breakers) Settle(ctx context.Context) {
	var keys []string
	b.mu.Lock()
	for key, e := range b.entries {
		if e.kept.back() && !e.kept.alone {
			e.kept.over = true
			keys = append(keys, key)
		}
	}
	b.mu.Unlock()
	for _, key := range keys {
		_, _ = b.Update(ctx, key, func(s breaker.State, _ time.Time) breaker.State { return s }) // or it is lost
	}
}

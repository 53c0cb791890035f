package uploader

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"time"
)

// fed is what one call of Feed.Next returned.
type fed struct {
	item Item
	err  error
}

// pump calls the feed. A feed may hang in a read that nothing can interrupt, a
// terminal or a pipe without a writer: when the run stops, it is left behind.
func (r *run) pump(out chan<- fed) {
	for {
		item, err := r.parts.Feed.Next(r.stopping)
		select {
		case out <- fed{item, err}:
		case <-r.stopping.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// read turns the feed into jobs until it ends or intake stops. A place in the
// window is taken before the record, so that a full window stops the reading.
func (r *run) read() {
	defer close(r.fresh)
	input := make(chan fed)
	go r.pump(input)
	for more := true; more; {
		select {
		case r.window <- struct{}{}:
		case <-r.stopping.Done():
			return
		}
		var j *job
		if j, more = r.take(input); j == nil {
			<-r.window
			continue
		}
		r.fresh <- j // never blocks for long: the scheduler drains it, also while stopping
	}
}

// take reads one item. It returns no job for one that is not to be sent, and
// more false at the end.
func (r *run) take(input <-chan fed) (j *job, more bool) {
	var f fed
	select {
	case f = <-input:
	case <-r.stopping.Done():
		return nil, false
	}
	switch {
	case errors.Is(f.err, io.EOF):
		r.sum.endOfInput()
		return nil, false
	case f.err != nil:
		r.fault(fmt.Errorf("%w: read input: %w", ErrLocal, f.err))
		return nil, false
	case f.item.Fault != nil:
		r.sum.fault(f.item.Fault)
		r.event(Event{Level: Error, Message: f.item.Fault.Error()})
		return nil, true
	}
	r.sum.read()
	return r.admit(f.item), true
}

// admit decides whether a record is to be sent: not when it is invalid, was
// seen before, or contradicts what was seen before.
func (r *run) admit(item Item) *job {
	if v := item.Invalid; v != nil {
		e := Event{Level: Warning, SpotID: v.SpotID, Key: v.Key, Bucket: Invalids, Message: v.Reason, File: v.Place.File, Line: v.Place.Line}
		if err := r.letter(Letter{Reason: Invalids, Invalid: v, Problem: v.Reason}); err != nil {
			e.Level, e.Bucket, e.Message = Error, Halted, unwritten
		}
		r.end(e)
		return nil
	}
	rec := item.Record
	j := &job{rec: rec}
	j.rec.BodySum = sha256.Sum256(rec.Body)
	seen := r.parts.Journal.Look(&j.rec)
	if seen.Sight == SightSameSpot && r.cfg.AcceptCorrections {
		seen.Sight = SightNew
	}
	j.again, j.refused = seen.Again, seen.Refused
	switch seen.Sight {
	case SightNew:
		return j
	case SightDuplicate:
		msg := "repeats " + seen.String()
		if seen.Run != "" {
			msg = "acked already: " + seen.String()
			r.sum.ackedBefore()
		}
		r.end(j.event(Info, Duplicate, msg))
		return nil
	case SightSameKey:
		j.problem = fmt.Sprintf("%s%s with other content", SameKeyProblem, seen)
	case SightSameSpot:
		j.problem = fmt.Sprintf("same station, air_date and spot_id as %s under another key", seen)
	}
	r.dead(j, Conflict)
	return nil
}

// SameKeyProblem begins the problem of a conflict about a key, not a spot.
const SameKeyProblem = "same key as "

// String names the earlier record.
func (s Sighting) String() string {
	if s.Run == "" {
		return fmt.Sprintf("%s:%d", s.Place.File, s.Place.Line)
	}
	return fmt.Sprintf("%s:%d of run %s", s.Place.File, s.Place.Line, s.Run)
}

// ahead is how many intents may be on disk before their records can be sent: so
// many that one sync serves a batch, so few that a crash leaves little in doubt.
func ahead(cfg Config) int { return min(cfg.QueueSize, max(16, cfg.Concurrency)) }

// intend puts the intents of new records on disk before they can be sent: as
// many at once as are there. While one batch is synced the next comes together.
func (r *run) intend() {
	defer close(r.intent)
	for j := range r.fresh {
		batch := []*job{j}
		for more := true; more && len(batch) < ahead(r.cfg); {
			select {
			case j, ok := <-r.fresh:
				if more = ok; ok {
					batch = append(batch, j)
				}
			default:
				more = false
			}
		}
		// A run that is stopping sends nothing new, and says so of nothing.
		if r.awaitOpen(); r.stopping.Err() == nil {
			r.enter(batch)
		}
		for _, j := range batch {
			r.intent <- j
		}
	}
}

// awaitOpen waits while the path takes nothing, or the run is held. Intents of
// records that cannot be sent would all be in doubt after a crash.
func (r *run) awaitOpen() {
	for {
		now, wait := time.Now(), time.Duration(0)
		if until := r.closed.Load(); until != nil {
			wait = until.Sub(now)
		}
		if _, held := r.held(now); held {
			wait = max(wait, holdLook)
		}
		if wait <= 0 {
			return
		}
		select {
		case <-time.After(wait):
		case <-r.stopping.Done():
			return
		}
	}
}

func (r *run) enter(batch []*job) {
	records := make([]*Record, len(batch))
	for i, j := range batch {
		records[i] = &j.rec
	}
	if err := r.parts.Journal.Intend(records); err != nil {
		// The stop keeps them from being sent.
		r.fault(fmt.Errorf("%w: %w", ErrLocal, err))
		return
	}
	for _, j := range batch {
		j.intended = true
	}
}

package uploader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

// Why a run ended before its input did.
var (
	ErrStopped  = errors.New("by a signal")
	ErrDeadline = errors.New("deadline reached")
	ErrHalted   = errors.New("every path has been down too long")
	ErrAuth     = errors.New("not authorised")
	ErrConfig   = errors.New("configuration fault")
	ErrLocal    = errors.New("local fault")
)

// job is a record with its life so far. It is owned by whoever holds it:
// reader, scheduler or one worker.
type job struct {
	rec       Record
	due       time.Time
	owes      *Path // a retry not yet paid for, and whose budget pays
	attempts  int   // requests made
	failures  int   // of these, failed for other reasons than a throttle
	throttles int
	broke     int // how often it found the retry budget empty
	history   []Try
	unknown   bool // a request was written and never answered
	status    int
	problem   string
}

type run struct {
	cfg   Config
	parts Parts
	seen  *seen
	paths map[*Path]*pathState
	sum   tally

	fresh  chan *job     // reader to scheduler: the bounded queue
	ready  chan *job     // scheduler to workers
	parked chan *job     // workers to scheduler
	window chan struct{} // one slot a record between reader and its end

	stop     context.CancelCauseFunc // ends intake; what is in flight goes on
	stopping context.Context

	haltMu    sync.Mutex
	downSince time.Time // guarded by haltMu; every path was found open, and none answered since
}

// Run delivers the feed and returns what happened to every record it read.
//
// Cancelling soft stops intake and lets requests in flight finish; cancelling
// hard abandons them. The error is nil when the feed was read to its end, or
// wraps one of the sentinels of this package; the summary is valid either way.
func Run(hard, soft context.Context, cfg Config, parts Parts) (Summary, error) {
	start := time.Now()
	stopping, stop := context.WithCancelCause(hard)
	defer stop(nil)
	defer context.AfterFunc(soft, func() { stop(ErrStopped) })()
	if !cfg.Deadline.IsZero() {
		t := time.AfterFunc(time.Until(cfg.Deadline), func() { stop(ErrDeadline) })
		defer t.Stop()
	}
	r := &run{
		cfg: cfg, parts: parts, seen: newSeen(),
		fresh:  make(chan *job, cfg.QueueSize),
		ready:  make(chan *job),
		parked: make(chan *job),
		window: make(chan struct{}, cfg.QueueSize+cfg.Concurrency),
		stop:   stop, stopping: stopping,
	}
	r.paths = make(map[*Path]*pathState, len(parts.Paths))
	for i := range r.parts.Paths {
		r.paths[&r.parts.Paths[i]] = new(pathState)
	}

	var wg sync.WaitGroup
	wg.Go(r.read)
	schedulerDone := make(chan struct{})
	go func() { r.schedule(); close(schedulerDone) }()
	var workers sync.WaitGroup
	for range cfg.Concurrency {
		workers.Go(func() { r.work(hard) })
	}
	workers.Wait()
	<-schedulerDone
	wg.Wait()

	s := r.sum.summary(time.Since(start), cfg.Deadline)
	if cause := context.Cause(stopping); cause != nil {
		if errors.Is(cause, context.Canceled) {
			cause = ErrStopped
		}
		// Everything done before the signal landed is still a full success.
		if !(s.inputEnded && s.waiting() == 0 && (errors.Is(cause, ErrStopped) || errors.Is(cause, ErrDeadline))) {
			return s, cause
		}
	}
	if !s.Balanced() {
		return s, fmt.Errorf("%w: the sums do not balance: %+v", ErrLocal, s.Counts)
	}
	return s, nil
}

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
		r.letter(Letter{Reason: Invalids, Invalid: v, Problem: v.Reason})
		r.end(Event{Level: Warning, SpotID: v.SpotID, Key: v.Key, Bucket: Invalids, Message: v.Reason, File: v.Place.File, Line: v.Place.Line})
		return nil
	}
	rec := item.Record
	j := &job{rec: rec}
	if item.Held != "" && !r.cfg.AcceptCorrections {
		j.problem = item.Held
		r.dead(j, Conflict, time.Time{})
		return nil
	}
	verdict, first := r.seen.add(rec)
	if verdict == sameSpot && r.cfg.AcceptCorrections {
		verdict = unseen
	}
	switch verdict {
	case unseen:
		return j
	case sameRecord:
		msg := fmt.Sprintf("repeats %s:%d", first.File, first.Line)
		r.end(Event{Level: Info, SpotID: rec.SpotID, Key: rec.Key, Bucket: Duplicate, Message: msg, File: rec.Place.File, Line: rec.Place.Line, Ref: rec.Ref})
	case sameKey:
		j.problem = fmt.Sprintf("same key as %s:%d with other content", first.File, first.Line)
		r.dead(j, Conflict, time.Time{})
	case sameSpot:
		j.problem = fmt.Sprintf("same station, air_date and spot_id as %s:%d under another key", first.File, first.Line)
		r.dead(j, Conflict, time.Time{})
	}
	return nil
}

// finish ends a record and gives its place in the window back.
func (r *run) finish(j *job, b Bucket, problem string, notBefore time.Time) {
	if problem != "" {
		j.problem = problem
	}
	switch b {
	case Acked:
		r.end(Event{Level: Info, SpotID: j.rec.SpotID, Key: j.rec.Key, Bucket: b, Message: "delivered", Status: j.status, Attempt: j.attempts, File: j.rec.Place.File, Line: j.rec.Place.Line, Ref: j.rec.Ref})
	case Halted:
		if j.unknown {
			r.dead(j, Unknown, notBefore)
			break
		}
		// Not condemned and not written down: the same command sends it again.
		r.end(Event{Level: Debug, SpotID: j.rec.SpotID, Key: j.rec.Key, Bucket: b, Message: "not sent", Attempt: j.attempts, File: j.rec.Place.File, Line: j.rec.Place.Line, Ref: j.rec.Ref})
	default:
		if j.unknown && b != Rejected {
			b = Unknown
		}
		r.dead(j, b, notBefore)
	}
	<-r.window
}

func (r *run) dead(j *job, b Bucket, notBefore time.Time) {
	r.letter(Letter{
		Reason: b, Record: &j.rec, Status: j.status, Problem: j.problem,
		History: slices.Concat(j.rec.Before, j.history), OutcomeUnknown: j.unknown, NotBefore: notBefore,
	})
	r.end(Event{
		Level: Warning, SpotID: j.rec.SpotID, Key: j.rec.Key, Bucket: b, Message: j.problem,
		Status: j.status, Attempt: j.attempts, File: j.rec.Place.File, Line: j.rec.Place.Line, Ref: j.rec.Ref,
	})
}

// letter writes before the record counts as handled; when the disk refuses,
// going on would lose records.
func (r *run) letter(l Letter) {
	if err := r.parts.DeadLetters.Write(l); err != nil {
		r.fault(fmt.Errorf("%w: write dead letter: %w", ErrLocal, err))
		r.sum.letterLost()
	}
}

// fault stops the run: intake ends, requests in flight finish.
func (r *run) fault(err error) {
	if r.stopping.Err() == nil {
		r.event(Event{Level: Critical, Message: err.Error()})
	}
	r.stop(err)
}

func (r *run) end(e Event) {
	r.sum.end(e.Bucket, e.Message, e.Status)
	r.event(e)
}

func (r *run) event(e Event) {
	e.At = time.Now()
	if r.parts.Observer != nil {
		r.parts.Observer.Event(e)
	}
}

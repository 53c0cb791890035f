package uploader

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Why a run ended before its input did.
var (
	ErrStopped  = errors.New("by a signal")
	ErrDeadline = errors.New("deadline reached")
	ErrHalted   = errors.New("every path has been down too long")
	ErrClosed   = errors.New("every path is closed for too long")
	ErrAuth     = errors.New("not authorised")
	ErrConfig   = errors.New("configuration fault")
	ErrPoison   = errors.New("every record is refused alike")
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
	rateWait  time.Duration // since the last attempt
	gateWait  time.Duration // since the last attempt
	turned    bool          // the last attempt was turned away unprocessed, and the one before was not
	tried     bool          // it was a trial of a path, which failed: enough for one record
	renewals  int           // attempts in a row that were refused for their token
	broke     int           // how often it found the retry budget empty
	history   []Try
	unknown   bool // a request was written and never answered
	refused   bool // an earlier run had it rejected
	again     bool // an earlier run may have sent it
	wrote     bool // a request was written
	intended  bool // its intent is in the journal
	status    int
	problem   string
}

type run struct {
	cfg     Config
	parts   Parts
	paths   map[*Path]*pathState
	asGiven []int // all paths
	sum     tally

	fresh  chan *job      // reader to journal: the bounded queue
	intent chan *job      // journal to scheduler: their intents are on disk
	ready  chan *job      // scheduler to workers
	parked chan *job      // workers to scheduler
	window chan struct{}  // one slot a record between reader and its end
	ending sync.WaitGroup // records whose end is on its way to the disk

	stop     context.CancelCauseFunc // ends intake; what is in flight goes on
	stopping context.Context

	closed atomic.Pointer[time.Time] // until then the path takes nothing

	announced sync.Map // kinds of faults that were told of

	haltMu    sync.Mutex
	downSince time.Time // guarded by haltMu; every path was found open, and none answered since
	lacking   time.Time // guarded by haltMu; since when no request can be made for want of something

	toldClosed time.Time // guarded by haltMu; end of the maintenance that was told of
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
		cfg: cfg, parts: parts,
		fresh:  make(chan *job, cfg.QueueSize),
		intent: make(chan *job, ahead(cfg)),
		ready:  make(chan *job),
		parked: make(chan *job),
		window: make(chan struct{}, cfg.QueueSize+cfg.Concurrency),
		stop:   stop, stopping: stopping,
	}
	r.paths = make(map[*Path]*pathState, len(parts.Paths))
	for i := range r.parts.Paths {
		r.paths[&r.parts.Paths[i]] = &pathState{index: i}
		r.asGiven = append(r.asGiven, i)
	}

	var wg sync.WaitGroup
	wg.Go(r.read)
	wg.Go(r.intend)
	schedulerDone := make(chan struct{})
	go func() { r.schedule(); close(schedulerDone) }()
	var workers sync.WaitGroup
	for n := range cfg.Concurrency {
		workers.Go(func() {
			r.ramp(n, schedulerDone)
			r.work(hard)
		})
	}
	workers.Wait()
	<-schedulerDone
	wg.Wait()
	r.ending.Wait()

	s := r.sum.summary(time.Since(start), cfg.Deadline)
	if cause := context.Cause(stopping); cause != nil {
		if errors.Is(cause, context.Canceled) {
			cause = ErrStopped
		}
		// Everything done before the signal landed is still a full success.
		if !(s.inputEnded && s.waiting() == 0 && (errors.Is(cause, ErrStopped) || errors.Is(cause, ErrDeadline))) {
			if !s.inputEnded {
				cause = fmt.Errorf("%w; the rest of the input was not read", cause)
			}
			return s, cause
		}
	}
	if !s.Balanced() {
		return s, fmt.Errorf("%w: the sums do not balance: %+v", ErrLocal, s.Counts)
	}
	return s, nil
}

// ramp lets the n-th worker begin when its turn comes: the number of those at
// work doubles with each step, so that a server that sleeps is not hit by all at
// once.
func (r *run) ramp(n int, over <-chan struct{}) {
	if wait := r.cfg.Ramp * time.Duration(bits.Len(uint(n))); wait > 0 {
		select {
		case <-time.After(wait):
		case <-r.stopping.Done():
		case <-over:
		}
	}
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

// awaitOpen waits while the path takes nothing. Intents of records that cannot
// be sent would all be in doubt after a crash.
func (r *run) awaitOpen() {
	for {
		until := r.closed.Load()
		if until == nil || !time.Now().Before(*until) {
			return
		}
		select {
		case <-time.After(time.Until(*until)):
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

// acked ends a record that the server has, once the answer is on disk.
func (r *run) acked(j *job, err error) {
	if err != nil {
		r.fault(fmt.Errorf("%w: %w", ErrLocal, err))
		r.end(j.event(Error, Unknown, "delivered, but the ledger could not be told"))
	} else {
		r.end(j.event(Info, Acked, "delivered"))
	}
	<-r.window
}

// finish ends any other record and gives its place in the window back.
func (r *run) finish(j *job, b Bucket, problem string, notBefore time.Time) {
	if problem != "" {
		j.problem = problem
	}
	if j.unknown && b != Rejected {
		b = Unknown
	}
	if b == Halted {
		// Not condemned and not written down: the same command sends it again.
		r.close(j, j.event(Debug, b, "not sent"))
		return
	}
	if err := r.letter(j.letter(b, notBefore)); err != nil {
		j.intended = false // nor may the journal say that it has ended
		r.close(j, j.event(Error, Halted, unwritten))
		return
	}
	r.close(j, j.event(Warning, b, j.problem))
}

// unwritten is said of a record whose dead letter is not on disk: it is not
// handled, and comes again with the same command.
const unwritten = "its dead letter could not be written"

// close enters the end of a record into the journal and then counts it.
func (r *run) close(j *job, e Event) {
	counted := func(err error) {
		if err != nil {
			r.fault(fmt.Errorf("%w: %w", ErrLocal, err))
		}
		r.end(e)
		<-r.window
		r.ending.Done()
	}
	r.ending.Add(1)
	if !j.intended {
		counted(nil)
		return
	}
	r.parts.Journal.End(&j.rec, Ended{Bucket: e.Bucket, Reason: j.problem, Wrote: j.wrote || j.again}, counted)
}

// dead ends a record that was not let in.
func (r *run) dead(j *job, b Bucket) {
	if err := r.letter(j.letter(b, time.Time{})); err != nil {
		r.end(j.event(Error, Halted, unwritten))
		return
	}
	r.end(j.event(Warning, b, j.problem))
}

func (j *job) letter(b Bucket, notBefore time.Time) Letter {
	return Letter{
		Reason: b, Record: &j.rec, Status: j.status, Problem: j.problem,
		History: slices.Concat(j.rec.Before, j.history), OutcomeUnknown: j.unknown || j.again, NotBefore: notBefore,
	}
}

func (j *job) event(l Level, b Bucket, message string) Event {
	return Event{
		Level: l, SpotID: j.rec.SpotID, Key: j.rec.Key, Bucket: b, Message: message, Status: j.status, Attempt: j.attempts,
		File: j.rec.Place.File, Line: j.rec.Place.Line, Ref: j.rec.Ref,
	}
}

// letter writes before the record counts as handled; when the disk refuses,
// going on would lose records.
func (r *run) letter(l Letter) error {
	err := r.parts.DeadLetters.Write(l)
	if err != nil {
		r.fault(fmt.Errorf("%w: write dead letter: %w", ErrLocal, err))
		r.sum.letterLost()
	}
	return err
}

// fault stops the run: intake ends, requests in flight finish. All that were in
// flight may meet the same; it is told once.
func (r *run) fault(err error) {
	if _, told := r.announced.LoadOrStore(kind(err), true); !told && r.stopping.Err() == nil {
		r.event(Event{Level: Critical, Message: err.Error()})
	}
	r.stop(err)
}

// kind is the sentinel of a fault.
func kind(err error) error {
	for _, k := range []error{ErrHalted, ErrClosed, ErrAuth, ErrNoToken, ErrConfig, ErrPoison} {
		if errors.Is(err, k) {
			return k
		}
	}
	return ErrLocal
}

func (r *run) end(e Event) {
	r.sum.end(e)
	r.event(e)
}

func (r *run) event(e Event) {
	e.At = time.Now()
	if r.parts.Observer != nil {
		r.parts.Observer.Event(e)
	}
}

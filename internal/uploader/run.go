package uploader

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
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

package uploader

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

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

package uploader

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"
)

func (r *run) work(ctx context.Context) {
	for j := range r.ready {
		if !r.step(ctx, j) {
			j = nil
		}
		r.parked <- j
	}
}

// step takes a record as far as it gets now and reports whether it is to be
// parked until j.due. Read aloud, a record passes
//
//	deadline( retry( path( breaker( gate( limiter( permit( HTTP )))))))
//
// A worker is held only inside step: while a record waits for long it is parked.
func (r *run) step(ctx context.Context, j *job) (park bool) {
	// deadline: no attempt starts that the night has no time for.
	if _, ok := r.slice(time.Now()); !ok {
		r.late(j)
		return false
	}
	if r.stopping.Err() != nil {
		r.putDown(j)
		return false
	}
	// retry: a second call has to be paid for.
	if j.owes != nil && !j.owes.Budget.Spend() {
		return r.unpaid(j)
	}
	j.owes = nil
	p, trial, done, park, over := r.way(j)
	if over {
		return park
	}
	// The wait for it may have used up the time there was.
	timeout, ok := r.sliceOn(p, time.Now())
	if !ok {
		done(VerdictNeutral, time.Now(), 0)
		r.giveBack(p, Attempted{}, true)
		r.waited(j, p)
		r.late(j)
		return false
	}
	// HTTP
	started := time.Now()
	sendCtx, cancel := context.WithTimeout(ctx, timeout)
	j.attempts++
	out := p.Sender.Send(sendCtx, Attempt{Key: j.rec.Key, Body: j.rec.Body, Number: j.attempts, Timeout: timeout})
	cancel()
	now := time.Now()
	if out.Local || out.NoToken && out.Status == 0 { // nothing was sent
		j.attempts--
		done(VerdictNeutral, now, 0)
		r.giveBack(p, Attempted{}, true)
		return r.lack(j, out)
	}
	r.lacksNothing()
	r.paths[p].answered(out, now.Sub(started))
	cut := r.cut(ctx, out, timeout, now.Sub(started))
	if cut {
		out = out.neutral(now.Sub(started))
	}
	if out.Class != ClassAuth {
		j.renewals = 0
	}
	if turnedAway(out) && !j.turned {
		r.sum.turnedAway() // the server saw nothing of it
	} else {
		r.sum.call(p, out, j.attempts > 1)
	}
	j.status, j.problem = out.Status, describe(out)
	j.unknown = j.unknown || out.Wrote && out.Status == 0 && out.Class == ClassRetry
	j.wrote = j.wrote || out.Wrote
	attempted := Attempted{
		Number: j.attempts, SentAt: started, EndedAt: now, Path: p.Name, Outcome: out, Cut: cut, RateWait: j.rateWait, GateWait: j.gateWait,
	}
	j.rateWait, j.gateWait = 0, 0
	if cut {
		r.giveBack(p, Attempted{}, true) // it says nothing of what the path bears
	} else {
		r.giveBack(p, attempted, out.Throttled)
	}
	if r.parts.Meter != nil {
		r.parts.Meter(attempted)
	}
	if cut {
		done(VerdictNeutral, now, len(j.rec.Body))
		r.cutOff(j, p, attempted)
		return false
	}
	out = r.pathsOwn(p, trial, out)
	throttleWait, verdict := r.throttle(p, out, started, now)
	if j.turned = turnedAway(out) && !j.turned; turnedAway(out) && !j.turned {
		verdict = VerdictFail
	}
	done(verdict, now, len(j.rec.Body))
	if verdict == VerdictOK {
		// Only an answer ends an outage: a probe let through is none yet.
		r.haltMu.Lock()
		r.downSince = time.Time{}
		r.haltMu.Unlock()
	}
	if out.Class == ClassAcked {
		r.paths[p].poison.cured()
		p.Budget.Earn()
		r.ending.Add(1)
		r.parts.Journal.Answer(&j.rec, attempted, func(err error) { r.acked(j, err); r.ending.Done() })
		return false
	}
	// Not waited for: the end of the record is, and comes later.
	r.parts.Journal.Answer(&j.rec, attempted, nil)
	switch out.Class {
	case ClassRejected:
		j.remember(p, started, out, 0)
		r.finish(j, Rejected, "", time.Time{})
		// One that an earlier run had tells nothing new.
		if n := r.cfg.PoisonStop; n > 0 && !j.refused && r.paths[p].poison.dose(out.Status) >= n {
			r.fault(fmt.Errorf("%w: %d times status %d in a row, the last: %s", ErrPoison, n, out.Status, j.problem))
		}
		return false
	case ClassAuth:
		return r.unauthorised(j, p, out, started)
	case ClassConfig:
		r.fault(fmt.Errorf("%w: %s: %w", ErrConfig, p.Name, told{j.problem, out.Err}))
		r.finish(j, Halted, "", time.Time{})
		return false
	}
	j.tried = j.tried || trial
	if trial {
		throttleWait = 0 // that is for those who go by this path
	}
	return r.again(j, p, out, started, throttleWait)
}

// told is an error in the words of the record that met it.
type told struct {
	words string
	err   error // nil: an answer was all there was
}

func (t told) Error() string { return t.words }

func (t told) Unwrap() error { return t.err }

// turnedAway says that the record was not processed, as on a connection that the
// server is closing. Once in a row that is free; a server that goes on like that
// is failing.
func turnedAway(out Outcome) bool {
	return out.Class == ClassRetry && out.Verdict == VerdictNeutral && !out.Wrote && !out.Throttled
}

// again decides what becomes of a record whose attempt failed for now.
func (r *run) again(j *job, p *Path, out Outcome, started time.Time, wait time.Duration) bool {
	if j.turned {
		j.remember(p, started, out, 0)
		return r.park(j, 0, j.problem)
	}
	switch {
	case out.Throttled:
		j.throttles++
	case out.NoNetwork: // no fault of the record, and no call: the breaker and the time bound it
		wait = r.cfg.Waits.Wait(1, r.parts.Rand())
	default:
		j.failures++
		wait = r.cfg.Waits.Wait(j.failures, r.parts.Rand())
	}
	j.remember(p, started, out, wait)
	overCap := out.HasRetryAfter && out.RetryAfter > r.cfg.RetryAfterCap
	if overCap && r.another(p, time.Now()) {
		overCap, wait = false, 0 // the next attempt goes by that
	}
	switch {
	case overCap:
		r.sentAway(p, out)
		msg := fmt.Sprintf("%s, asked to wait %s, more than the cap of %s", j.problem, inWords(out.RetryAfter), r.cfg.RetryAfterCap)
		r.finish(j, Deferred, msg, addSaturated(time.Now(), out.RetryAfter))
		return false
	case j.failures >= r.cfg.MaxAttempts || j.throttles >= r.cfg.MaxThrottles:
		r.finish(j, Exhausted, "", time.Time{})
		return false
	}
	if !out.NoNetwork {
		j.owes = p
	}
	r.event(Event{
		Level: Warning, SpotID: j.rec.SpotID, Key: j.rec.Key, Message: "retryable: " + j.problem, Status: out.Status,
		Wait: wait, Path: p.Name, Attempt: j.attempts, File: j.rec.Place.File, Line: j.rec.Place.Line,
	})
	return r.park(j, wait, j.problem)
}

// allDown parks a record until a breaker may be probed, and halts the run when
// that has gone on too long. It costs neither an attempt nor budget.
func (r *run) allDown(j *job, retryAt time.Time) bool {
	now := time.Now()
	r.haltMu.Lock()
	if r.downSince.IsZero() {
		r.downSince = now
	}
	haltAt := r.downSince.Add(r.cfg.HaltAfter)
	r.haltMu.Unlock()
	if !now.Before(haltAt) {
		err := fmt.Errorf("%w (%s)", ErrHalted, r.cfg.HaltAfter)
		if c, ok := r.closure(now); ok {
			err = fmt.Errorf("%w; there is %s, too", err, c)
		}
		r.fault(err)
		r.finish(j, Halted, "", time.Time{})
		return false
	}
	if retryAt.After(haltAt) {
		retryAt = haltAt
	}
	if _, inTime := r.slice(retryAt); !inTime {
		r.fault(fmt.Errorf("%w: none is tried again before the deadline", ErrHalted))
		r.finish(j, Halted, "", time.Time{})
		return false
	}
	return r.shut(j, min(retryAt.Sub(now), downLook), "every path is down")
}

// downLook is how often a record that waits for a breaker asks again: an operator,
// or another machine's probe, may close it before its time.
const downLook = time.Second

// shut parks a record that nothing could have been done for now, nor for any
// other.
func (r *run) shut(j *job, d time.Duration, why string) bool {
	park := r.park(j, d, why)
	if park {
		until := j.due
		r.closed.Store(&until)
	}
	return park
}

// unpaid parks a record for which the retry budget has no token. One that
// keeps finding it empty waits for another run: it is not burnt. While no path
// takes anything nobody earns a token either, and it is not held against it.
func (r *run) unpaid(j *job) bool {
	// Between the end of a wait and the next word that all is shut is a moment.
	if until := r.closed.Load(); until != nil && time.Now().Before(until.Add(downLook)) {
		return r.park(j, max(time.Until(*until), downLook/10), "retry budget empty")
	}
	if j.broke++; j.broke > r.cfg.MaxAttempts {
		r.finish(j, Deferred, "retry budget spent: "+j.problem, time.Time{})
		return false
	}
	return r.park(j, r.cfg.Waits.Wait(j.failures+j.broke, r.parts.Rand()), "retry budget empty")
}

// park sets the end of a wait, unless it would pass the night's deadline.
func (r *run) park(j *job, d time.Duration, why string) bool {
	now := time.Now()
	j.due = now.Add(max(d, minPark))
	if dl := r.cfg.Deadline; !dl.IsZero() && !j.due.Before(dl) {
		r.finish(j, Deferred, why+"; the next try would come after the deadline", j.due)
		return false
	}
	return true
}

// minPark keeps a wait that rounds to nothing from becoming a busy loop.
const minPark = time.Millisecond

// stopBucket is where a record goes that the end of the run caught waiting.
func (r *run) stopBucket() (Bucket, string) {
	if errors.Is(context.Cause(r.stopping), ErrDeadline) {
		return Deferred, r.noTime()
	}
	return Halted, ""
}

func (j *job) remember(p *Path, at time.Time, out Outcome, wait time.Duration) {
	try := Try{At: at.UTC(), Path: p.Name, Status: out.Status, WaitMS: wait.Milliseconds()}
	if out.Err != nil {
		try.Error = out.Err.Error()
	}
	j.history = append(j.history, try)
}

func describe(out Outcome) string {
	switch {
	case out.Status == 0 && out.Err != nil:
		if op, ok := errors.AsType[*net.OpError](out.Err); ok && op.Op != "dial" {
			// The addresses of the connection would make every reason its own.
			why := op.Err
			if call, ok := errors.AsType[*os.SyscallError](why); ok {
				why = call.Err // its name is the operation's
			}
			return op.Op + ": " + why.Error()
		}
		return out.Err.Error()
	case out.Problem != "":
		return fmt.Sprintf("status %d: %s", out.Status, out.Problem)
	}
	return fmt.Sprintf("status %d", out.Status)
}

const year = 365 * 24 * time.Hour

func inWords(d time.Duration) string {
	if d > year {
		return "more than a year"
	}
	return max(d.Round(time.Second), time.Second).String()
}

// addSaturated is t+d, held inside what a timestamp in a letter can carry.
func addSaturated(t time.Time, d time.Duration) time.Time { return t.Add(min(d, 10*year)) }

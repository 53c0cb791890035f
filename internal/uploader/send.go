package uploader

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// pathState is what the run remembers of a path between answers.
type pathState struct {
	index int // of the path

	mu        sync.Mutex
	throttled time.Time // guarded by mu; when the last burst of throttles was counted
	rounds    int       // guarded by mu; bursts since the last success
	away      time.Time // guarded by mu; until when other paths are better: the server said so
	patience  int       // guarded by mu; answers in a row that asked for more than the cap
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
	_, ok := r.slice(time.Now())
	if !ok || r.stopping.Err() != nil {
		b, problem := r.stopBucket()
		if !ok {
			b, problem = Deferred, "deadline reached"
		}
		r.finish(j, b, problem, time.Time{})
		return false
	}
	// retry: a second call has to be paid for.
	if j.owes != nil && !j.owes.Budget.Spend() {
		return r.unpaid(j)
	}
	j.owes = nil
	p, done, park, over := r.way(j)
	if over {
		return park
	}
	// The wait for it may have used up the time there was.
	timeout, ok := r.slice(time.Now())
	if !ok {
		done(VerdictNeutral, time.Now(), 0)
		r.giveBack(p, Attempted{}, true)
		r.waited(j, p)
		r.finish(j, Deferred, "deadline reached", time.Time{})
		return false
	}
	// HTTP
	started := time.Now()
	sendCtx, cancel := context.WithTimeout(ctx, timeout)
	j.attempts++
	out := p.Sender.Send(sendCtx, Attempt{Key: j.rec.Key, Body: j.rec.Body, Number: j.attempts, Timeout: timeout})
	cancel()
	now := time.Now()
	if out.NoToken && out.Status == 0 { // nothing was sent
		j.attempts--
		done(VerdictNeutral, now, 0)
		r.giveBack(p, Attempted{}, true)
		return r.noToken(j, out)
	}
	r.hasToken()
	if out.Class != ClassAuth {
		j.renewals = 0
	}
	r.sum.call(p, out, j.attempts > 1)
	j.status, j.problem = out.Status, describe(out)
	j.unknown = j.unknown || out.Wrote && out.Status == 0 && out.Class == ClassRetry
	j.wrote = j.wrote || out.Wrote
	attempted := Attempted{
		Number: j.attempts, SentAt: started, EndedAt: now, Path: p.Name, Outcome: out, RateWait: j.rateWait, GateWait: j.gateWait,
	}
	j.rateWait, j.gateWait = 0, 0
	r.giveBack(p, attempted, out.Throttled)
	if r.parts.Meter != nil {
		r.parts.Meter(attempted)
	}
	if out.Class == ClassConfig && len(r.parts.Paths) > 1 {
		out.Verdict = VerdictFail
	}
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
		r.poison.cured()
		p.Budget.Earn()
		r.ending.Add(1)
		r.parts.Journal.Answer(&j.rec, attempted, func(err error) { r.acked(j, err); r.ending.Done() })
		return false
	}
	// Not waited for: the end of the record is, and comes later.
	r.parts.Journal.Answer(&j.rec, attempted, nil)
	if out.Class == ClassConfig && len(r.parts.Paths) > 1 {
		// A fault of this path: the others may be well.
		out.Class = ClassRetry
	}
	switch out.Class {
	case ClassRejected:
		j.remember(p, started, out, 0)
		r.finish(j, Rejected, "", time.Time{})
		// One that an earlier run had tells nothing new.
		if n := r.cfg.PoisonStop; n > 0 && !j.refused && r.poison.dose(out.Status) >= n {
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

// way finds the path for a record, and waits for leave to use it: over says that
// none was got, and park what becomes of the record.
func (r *run) way(j *job) (p *Path, done func(Verdict, time.Time, int), park, over bool) {
	for paid := false; ; paid = true {
		// path, breaker: the first that is fit to be used.
		now := time.Now()
		p, done, retryAt := r.choose(now)
		if p == nil {
			return nil, nil, r.noPath(j, retryAt, now), true
		}
		// gate: the server asked everyone to wait.
		if d := p.Gate.Delay(now, r.parts.Rand()); d > 0 {
			done(VerdictNeutral, now, 0)
			j.gateWait += d
			return nil, nil, r.shut(j, d, "gate closed"), true
		}
		// limiter, permit: the rate we were given, what the path bears. They
		// fail only when the run ends first.
		if err := r.leave(j, p, paid); err != nil {
			done(VerdictNeutral, time.Now(), 0)
			r.waited(j, p)
			b, problem := r.stopBucket()
			r.finish(j, b, problem, time.Time{})
			return nil, nil, false, true
		}
		if got := time.Now(); (paid || got.Sub(now) < longWait) && !r.isClosed(p, got) {
			return p, done, false, false
		}
		// Meanwhile a window may have begun, a breaker opened, a gate closed.
		done(VerdictNeutral, time.Now(), 0)
		r.giveBack(p, Attempted{}, true)
	}
}

// longWait is how long a path that was chosen stays the right one.
const longWait = time.Second

// again decides what becomes of a record whose attempt failed for now.
func (r *run) again(j *job, p *Path, out Outcome, started time.Time, wait time.Duration) bool {
	if j.turned {
		j.remember(p, started, out, 0)
		return r.park(j, 0, j.problem)
	}
	if out.Throttled {
		j.throttles++
	} else {
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
	j.owes = p
	r.event(Event{
		Level: Warning, SpotID: j.rec.SpotID, Key: j.rec.Key, Message: "retryable: " + j.problem, Status: out.Status,
		Wait: wait, Path: p.Name, Attempt: j.attempts, File: j.rec.Place.File, Line: j.rec.Place.Line,
	})
	return r.park(j, wait, j.problem)
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

// choose returns the first path whose breaker lets a request through, or the
// earliest time at which one will; zero: none may be used at all. done takes the
// bytes of the request, 0 when it was not sent after all.
func (r *run) choose(now time.Time) (p *Path, done func(v Verdict, at time.Time, bytes int), retryAt time.Time) {
	for _, i := range r.order(now) {
		p := &r.parts.Paths[i]
		record, at, ok := p.Breaker.Allow(now)
		if ok {
			return p, func(v Verdict, at time.Time, bytes int) {
				if v == VerdictFail && r.isClosed(p, at) {
					v = VerdictNeutral // maintenance has begun: no news
				}
				record(v, at)
				if r.parts.Chooser != nil {
					r.parts.Chooser.Done(i, v, bytes, at)
				}
			}, time.Time{}
		}
		if r.parts.Chooser != nil {
			r.parts.Chooser.Refused(i, at, now)
		}
		if retryAt.IsZero() || at.Before(retryAt) {
			retryAt = at
		}
	}
	return nil, nil, retryAt
}

// order is that of preference, with those behind that the server closed for
// maintenance, or for longer than is waited for.
func (r *run) order(now time.Time) []int {
	order := r.asGiven
	if r.parts.Chooser != nil {
		order = r.parts.Chooser.Order(now, r.parts.Rand())
	}
	if len(order) < 2 {
		return order
	}
	var first, last []int
	for _, i := range order {
		if r.isAway(&r.parts.Paths[i], now) {
			last = append(last, i)
		} else {
			first = append(first, i)
		}
	}
	return append(first, last...)
}

// leave waits for the rate this side was given, unless that is paid, for the one
// the path's server bears, and for a permit.
func (r *run) leave(j *job, p *Path, paid bool) error {
	own := r.parts.Limiter
	if paid {
		own = nil
	}
	for _, l := range []struct {
		limiter Limiter
		wait    *time.Duration
	}{{own, &j.rateWait}, {p.Rate, &j.rateWait}, {p.Limiter, &j.gateWait}} {
		if l.limiter == nil {
			continue
		}
		before := time.Now()
		err := l.limiter.Wait(r.stopping)
		*l.wait += time.Since(before)
		if err != nil {
			return err
		}
	}
	if p.Permits == nil {
		return nil
	}
	return p.Permits.Acquire(r.stopping)
}

// waited tells of waits that end without an attempt.
func (r *run) waited(j *job, p *Path) {
	if r.parts.Waited != nil {
		r.parts.Waited(p.Name, j.rateWait, j.gateWait)
	}
}

func (r *run) giveBack(p *Path, a Attempted, gated bool) {
	if p.Permits != nil {
		p.Permits.Release(a, gated)
	}
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
	return r.shut(j, retryAt.Sub(now), "every path is down")
}

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
	if until := r.closed.Load(); until != nil && time.Now().Before(*until) {
		return r.park(j, time.Until(*until), "retry budget empty")
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

// slice is the time an attempt may take: what it wants, or what is left.
func (r *run) slice(now time.Time) (time.Duration, bool) {
	want := r.cfg.RequestTimeout
	if r.cfg.Deadline.IsZero() {
		return want, true
	}
	left := r.cfg.Deadline.Sub(now) - r.cfg.Reserve
	return min(want, left), left > 0
}

// stopBucket is where a record goes that the end of the run caught waiting.
func (r *run) stopBucket() (Bucket, string) {
	if errors.Is(context.Cause(r.stopping), ErrDeadline) {
		return Deferred, "deadline reached"
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
			return op.Op + ": " + op.Err.Error()
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

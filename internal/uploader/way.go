package uploader

import (
	"context"
	"time"
)

// way finds the path for a record, and waits for leave to use it: over says that
// none was got, and park what becomes of the record.
func (r *run) way(j *job) (p *Path, trial bool, done func(Verdict, time.Time, int), park, over bool) {
	var turn *Path // whose pace was waited for
	for paid, trials := false, !j.tried; ; paid = true {
		// path, breaker: the first that is fit to be used.
		now := time.Now()
		if why, held := r.held(now); held {
			return nil, false, nil, r.hold(j, why), true
		}
		var retryAt time.Time
		p, trial, done, retryAt = r.choose(now, trials)
		if p == nil {
			return nil, false, nil, r.noPath(j, retryAt, now), true
		}
		// gate: the server asked everyone to wait.
		if d := r.gateDelay(p, trial, now); d > 0 {
			done(VerdictNeutral, now, 0)
			j.gateWait += d
			return nil, false, nil, r.shut(j, d, "gate closed"), true
		}
		// limiter, permit: the rate we were given, what the path bears. They
		// fail only when the run ends first.
		if err := r.leave(j, p, paid, turn == p, trial); err != nil {
			done(VerdictNeutral, time.Now(), 0)
			if trial && r.stopping.Err() == nil {
				trials = false // it has no room for a trial: the record goes by the usual path
				continue
			}
			r.waited(j, p)
			b, problem := r.stopBucket()
			r.finish(j, b, problem, time.Time{})
			return nil, false, nil, false, true
		}
		got := time.Now()
		_, held := r.held(got)
		fits := (paid || got.Sub(now) < longWait) && !r.isClosed(p, got) && !held
		if fits && got.Sub(now) < shortWait {
			return p, trial, done, false, false
		}
		turn = p
		// Meanwhile a window may have begun, a breaker opened, a gate closed.
		done(VerdictNeutral, got, 0)
		if fits {
			var ok bool
			if done, _, ok = r.ask(r.paths[p].index, got); ok {
				return p, trial, done, false, false
			}
		}
		r.giveBack(p, Attempted{}, true)
	}
}

const (
	longWait  = time.Second           // as long a path that was chosen stays the right one
	shortWait = 10 * time.Millisecond // and as long its breaker need not be asked again
)

// choose returns the first path whose breaker lets a request through, or the
// earliest time at which one will; zero: none may be used at all. A path that is
// only to be tried, as trial tells, has to be ready for it, and is left out when
// there are to be no trials. done takes the bytes of the request, 0 when it was
// not sent after all.
func (r *run) choose(now time.Time, trials bool) (p *Path, trial bool, done func(v Verdict, at time.Time, bytes int), retryAt time.Time) {
	order, try := r.order(now)
	for n, i := range order {
		p, trial := &r.parts.Paths[i], try && n == 0
		if trial && (!trials || p.Gate.Delay(now, r.parts.Rand()) > 0) {
			continue
		}
		done, at, ok := r.ask(i, now)
		if ok {
			return p, trial, done, time.Time{}
		}
		if r.parts.Chooser != nil {
			r.parts.Chooser.Refused(i, at, now)
		}
		if retryAt.IsZero() || at.Before(retryAt) {
			retryAt = at
		}
	}
	return nil, false, nil, retryAt
}

// ask asks the breaker of path i for leave; done and at are those of choose.
func (r *run) ask(i int, now time.Time) (done func(v Verdict, at time.Time, bytes int), at time.Time, ok bool) {
	p := &r.parts.Paths[i]
	record, at, ok := p.Breaker.Allow(now)
	if !ok {
		return nil, at, false
	}
	return func(v Verdict, at time.Time, bytes int) {
		if v == VerdictFail && r.isClosed(p, at) {
			v = VerdictNeutral // maintenance has begun: no news
		}
		record(v, at)
		if r.parts.Chooser != nil {
			r.parts.Chooser.Done(i, v, bytes, at)
		}
	}, time.Time{}, true
}

// gateDelay asks the gate of a path; one on trial was asked before.
func (r *run) gateDelay(p *Path, trial bool, now time.Time) time.Duration {
	if trial {
		return 0
	}
	return p.Gate.Delay(now, r.parts.Rand())
}

// order is that of preference, with those behind that the server closed for
// maintenance, or for longer than is waited for. The first of it may be there only
// for a trial.
func (r *run) order(now time.Time) (order []int, trial bool) {
	order = r.asGiven
	if r.parts.Chooser != nil {
		order, trial = r.parts.Chooser.Order(now, r.parts.Rand())
	}
	if len(order) < 2 {
		return order, false
	}
	var first, last []int
	for _, i := range order {
		if r.isAway(&r.parts.Paths[i], now) {
			last = append(last, i)
		} else {
			first = append(first, i)
		}
	}
	return append(first, last...), trial && len(first) > 0 && first[0] == order[0]
}

// trialPatience is how long a worker waits to try a path while another is well.
const trialPatience = 50 * time.Millisecond

// leave waits for the rate this side was given, unless that is paid, for the one
// the path's server bears, and for a permit.
func (r *run) leave(j *job, p *Path, paid, turn, trial bool) error {
	own, ctx := r.parts.Limiter, context.Context(r.stopping)
	if paid {
		own = nil
	}
	if own != nil {
		before := time.Now()
		err := own.Wait(ctx)
		j.rateWait += time.Since(before)
		if err != nil {
			return err
		}
	}
	if trial {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, trialPatience)
		defer cancel()
	}
	for _, l := range []struct {
		limiter Limiter
		wait    *time.Duration
	}{{p.Rate, &j.rateWait}, {p.Limiter, &j.gateWait}} {
		if l.limiter == nil || turn {
			continue
		}
		before := time.Now()
		err := l.limiter.Wait(ctx)
		*l.wait += time.Since(before)
		if err != nil {
			return err
		}
	}
	if p.Permits == nil {
		return nil
	}
	return p.Permits.Acquire(ctx)
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

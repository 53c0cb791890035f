package sharedlimit

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"time"

	"trafficup/internal/redis"
)

const (
	askAgain = time.Second // while Redis is away
	// humble is after its return: longer than the others may need to notice it.
	// Those whose clients have paused look every two seconds, the rest every second.
	humble = 3 * time.Second
)

// state is what a node knows of the others, and what it did.
type state struct {
	window int64     // number of the window at the last answer
	edge   time.Time // its end
	end    time.Time // of the last window a lease was had or made for
	nodes  int       // known last
	credit float64   // calls, while Redis is away

	err     error     // why it goes on without Redis, else nil
	retryAt time.Time // while it does
	caution time.Time // until then the others may still believe Redis to be away

	spent, asked, failures int64
	lastSpent, lastExpired int64 // when asked last
}

// run asks for leases until ctx ends.
func (l *Limiter) run(ctx context.Context) {
	defer close(l.ended)
	fresh := true
	for {
		if fresh {
			select {
			case <-l.woken:
			case <-ctx.Done():
				return
			}
		}
		next := l.ask(ctx, fresh)
		select {
		case <-time.After(time.Until(next)):
		case <-ctx.Done():
			return
		}
		fresh = l.rest()
	}
}

// rest reports whether nobody has waited since the last ask: no lease is needed
// until somebody does.
func (l *Limiter) rest() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asleep = len(l.waiting) == 0 && l.state.spent == l.state.lastSpent
	return l.asleep
}

// ask gets a lease for the next window and returns when to ask again.
func (l *Limiter) ask(ctx context.Context, fresh bool) time.Time {
	l.mu.Lock()
	sent := time.Now()
	r := l.request(sent, fresh)
	if l.state.err != nil {
		l.goOn(sent)
		if sent.Before(l.state.retryAt) {
			l.mu.Unlock()
			return sent.Add(window)
		}
	}
	l.mu.Unlock()
	a, err := takeLease(ctx, l.on, r)
	if ctx.Err() != nil {
		return sent
	}
	if err != nil {
		return l.failed(err)
	}
	return l.granted(a, sent)
}

// request says what this node needs. Whoever has somebody waiting and has let no
// call expire asks for all there is, and gets its part; who knows nothing yet, for
// a quarter; others, for what was spent last and a little more. While
// Redis is away and just after, nobody asks for more than the part all believe in.
// requires mu.
func (l *Limiter) request(now time.Time, fresh bool) request {
	s := &l.state
	all := int64(l.ceiling * 1000 * window.Seconds())
	spent, expired := s.spent-s.lastSpent, int64(l.pool.expired)-s.lastExpired
	r := request{
		node: l.cfg.Node, class: l.cfg.Class, ceiling: int64(l.ceiling * 1000),
		demand: min(1000*(spent+spent/4+1), all), credit: int64(l.phase * 1000),
	}
	switch {
	case fresh:
		r.demand = max(all/4, 1000)
		r.atOnce = max(all/4000, 1)
	case len(l.waiting) > 0 && expired == 0:
		r.demand = max(all, 1000)
		r.atOnce = all/1000 + 1
	}
	if s.err != nil || now.Before(s.caution) {
		r.demand, r.atOnce = min(r.demand, all/int64(s.nodes)), 0
	}
	s.lastSpent, s.lastExpired = s.spent, int64(l.pool.expired)
	return r
}

// granted takes in a lease.
func (l *Limiter) granted(a answer, sent time.Time) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, s := time.Now(), &l.state
	// Redis has read its clock half-way, give or take as much.
	half := now.Sub(sent) / 2
	s.window, s.edge = a.window, sent.Add(half+window-a.into)
	s.end = s.edge.Add(window)
	s.asked++
	if s.err == nil && now.After(s.caution) {
		s.nodes = max(a.nodes, 1)
	}
	s.nodes = max(s.nodes, a.nodes) // to believe in more is never too bold
	if s.err != nil {
		// What was made without Redis is spent first: a server that was only
		// stopped has just given leases to those who asked long ago.
		s.err, s.credit = nil, 0
		s.caution = now.Add(humble)
		l.pool.cut(s.end)
	} else {
		l.pool.add(spread(a.now, now.Add(-half), s.edge.Sub(now)+half, l.phase, true).from(now))
		l.pool.add(spread(a.next, s.edge, window, l.phase, true))
	}
	l.let()
	// Early in the window: if Redis does not answer in time, what is made instead
	// is not too late either. In another order each time: the first one gets what
	// is left over.
	return s.edge.Add(rand.N(window / 4))
}

// failed goes on without Redis. A client that has paused is asked every window, as
// that costs nothing, so that its return is noticed soon.
func (l *Limiter) failed(err error) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, s := time.Now(), &l.state
	s.err, s.retryAt = err, now
	if !errors.Is(err, redis.ErrPaused) {
		s.asked, s.failures, s.retryAt = s.asked+1, s.failures+1, now.Add(askAgain)
	}
	l.goOn(now)
	l.let()
	return now.Add(window / 2)
}

// goOn makes leases of this node's part for the next two windows. requires mu.
func (l *Limiter) goOn(now time.Time) {
	s := &l.state
	if s.end.Before(now.Add(-patience)) {
		s.end = now
	}
	for s.end.Before(now.Add(2 * window)) {
		s.credit += l.ceiling / float64(s.nodes) * window.Seconds()
		n := math.Floor(s.credit)
		s.credit -= n
		l.pool.add(spread(int(n), s.end, window, l.phase, false))
		s.end = s.end.Add(window)
	}
}

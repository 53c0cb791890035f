package sharedlimit

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// Class is whose calls go first.
type Class int

// The classes, in their order.
const (
	Nightly  Class = iota // the night's own records
	Replay                // dead letters sent again
	Backfill              // what a person sends by hand
)

// ErrClosed is returned by [Limiter.Wait] after Close.
var ErrClosed = errors.New("limiter is closed")

// Config says what a [Limiter] shares with whom.
type Config struct {
	Node    string  // names this process among them
	Class   Class   // of its calls
	Ceiling float64 // calls per second of all of them together, more than 0
	Nodes   int     // how many they are, as long as Redis has not told; at least 1
}

// Stats is what a [Limiter] has done.
type Stats struct {
	Ceiling  float64
	Away     bool  // it goes on without Redis, with the ceiling divided by Nodes
	Nodes    int   // known last, with this one
	Spent    int64 // calls let through
	Expired  int64 // calls had and not spent
	Asked    int64 // calls to Redis
	Failures int64 // those of them that failed
	Err      error // why it is Away, else nil
}

// Limiter is one node's part of the ceiling. Safe for concurrent use.
type Limiter struct {
	cfg    Config
	on     Redis
	phase  float64 // of this node among the others
	stop   context.CancelFunc
	ending <-chan struct{}
	ended  chan struct{}
	woken  chan struct{} // has room for one

	mu      sync.Mutex
	ceiling float64         // guarded by mu
	pool    pool            // guarded by mu
	waiting []chan struct{} // guarded by mu; first come, first served; closed when let through
	timer   *time.Timer     // guarded by mu; for the next call in pool
	asleep  bool            // guarded by mu; nobody has waited for a while
	state   state           // guarded by mu
}

// New returns a Limiter that asks on, a [redis.Client] for one, for its leases. Close has to follow.
func New(cfg Config, on Redis) *Limiter {
	ctx, stop := context.WithCancel(context.Background())
	l := &Limiter{
		cfg: cfg, on: on, phase: rand.Float64(), stop: stop, ending: ctx.Done(),
		ended: make(chan struct{}), woken: make(chan struct{}, 1),
		ceiling: cfg.Ceiling, asleep: true, state: state{nodes: max(cfg.Nodes, 1)},
	}
	l.timer = time.AfterFunc(math.MaxInt64, l.tick)
	go l.run(ctx)
	return l
}

// Set changes the ceiling, in calls per second, from the next lease on.
func (l *Limiter) Set(ceiling float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ceiling = ceiling
}

// Wait returns nil when a call may be made, callers in the order they came, else
// ctx's error or [ErrClosed].
func (l *Limiter) Wait(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l.mu.Lock()
	l.wake()
	if len(l.waiting) == 0 && l.pool.take(time.Now()) {
		l.state.spent++
		l.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	l.waiting = append(l.waiting, turn)
	l.let()
	l.mu.Unlock()
	err := ErrClosed
	select {
	case <-turn:
		return nil
	case <-l.ending:
	case <-ctx.Done():
		err = ctx.Err()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.waiting, turn); i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
	} else { // let through in the last moment: the next one may go instead
		l.state.spent--
		l.pool.add(lease{first: time.Now(), n: 1})
		l.let()
	}
	return err
}

// Stats returns what was done so far.
func (l *Limiter) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &l.state
	return Stats{Ceiling: l.ceiling, Away: s.err != nil, Err: s.err, Nodes: s.nodes, Spent: s.spent, Expired: int64(l.pool.expired), Asked: s.asked, Failures: s.failures}
}

// Close ends the waiting of all, returns to Redis what is not spent if it
// answers, and frees what is held.
func (l *Limiter) Close() {
	l.stop()
	<-l.ended
	l.mu.Lock()
	l.timer.Stop()
	now, s := time.Now(), l.state
	current, next := l.pool.unspent(now, s.edge)
	l.pool.leases = nil
	l.mu.Unlock()
	if s.asked == 0 || s.err != nil || now.After(s.edge.Add(window)) {
		return // nothing to return, or nobody to return it to
	}
	// If it fails the node is forgotten and its lease over soon.
	_, _ = l.on.Eval(context.Background(), leaveScript, limitKeys(l.on), l.cfg.Node, s.window, current, s.window+1, next)
}

// let lets through who waits as far as calls are due, and sets the timer for the
// next one. requires mu.
func (l *Limiter) let() {
	now := time.Now()
	for len(l.waiting) > 0 && l.pool.take(now) {
		l.state.spent++
		close(l.waiting[0])
		l.waiting = l.waiting[1:]
	}
	if next := l.pool.earliest(now); next != nil && len(l.waiting) > 0 {
		l.timer.Reset(next.first.Sub(now))
	}
}

func (l *Limiter) tick() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.let()
}

// wake lets the one who asks for leases go on. requires mu.
func (l *Limiter) wake() {
	if l.asleep {
		l.asleep = false
		l.woken <- struct{}{} // has room: asleep is set when it is empty
	}
}

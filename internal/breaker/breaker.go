package breaker

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// storeTimeout bounds one call of the store: the breaker serves the upload.
const storeTimeout = time.Second

// Permit is leave to send one request, to be handed to [Breaker.Record] once.
type Permit struct {
	Gen   uint64 // the generation it was given under
	Probe bool   // its result alone decides whether the breaker closes
}

// Breaker guards one path. Safe for concurrent use.
type Breaker struct {
	cfg    Config
	store  Store
	key    string
	notify func(News)

	mu       sync.Mutex
	state    State         // guarded by mu; copy of what the store held at readAt
	readAt   time.Time     // guarded by mu; caller's clock, zero before the first read
	ahead    time.Duration // guarded by mu; store's clock minus the caller's
	thrashes bool          // guarded by mu; state did at readAt
	queue    []News        // guarded by mu; not yet told
	notifies bool          // guarded by mu; somebody is telling them
}

// News is that a breaker is in another phase, that a force was set, changed or
// ended, or that the breaker has begun to thrash. It may be all of these.
type News struct {
	Was, Is  State
	Thrashes bool // has begun to
}

// Moved reports that the phase is another.
func (n News) Moved() bool { return n.Is.Phase != n.Was.Phase }

// New returns the breaker kept under key in store. notify, which may be nil, is
// called once for each piece of news that this breaker makes or finds made by
// others, in order and outside all locks; what it finds at the start is news.
func New(cfg Config, store Store, key string, notify func(News)) *Breaker {
	return &Breaker{cfg: cfg.filled(), store: store, key: key, notify: notify}
}

// Allow asks for leave to send one request. When ok is false, retryAt is when to
// ask again. err tells that the store could not be used; the answer stands
// nevertheless. Calls that change nothing do not write, and at most one in
// Config.Fresh reads. Times are compared by the store's clock; now only has to run at
// the same pace.
func (b *Breaker) Allow(now time.Time) (p Permit, retryAt time.Time, ok bool, err error) {
	b.mu.Lock()
	defer b.unlock()
	err = b.refresh(now)
	u, cfg := rand.Float64(), b.cfg
	if !cfg.Deadline.IsZero() {
		cfg.Deadline = plain(now.Add(b.cfg.Deadline.Sub(now) + b.ahead)) // by the store's clock
	}
	next, ok, at := cfg.Allow(b.state, now.Add(b.ahead), u)
	if next != b.state {
		err = b.update(now, func(s State, clock time.Time) State {
			next, ok, at = cfg.Allow(s, clock, u)
			return next
		})
	}
	if !ok {
		return Permit{}, at.Add(-b.ahead), false, err
	}
	return Permit{Gen: b.state.Generation, Probe: b.state.Phase == HalfOpen}, time.Time{}, true, err
}

// Record reports the end of the request p was given for. Every permit has to
// come back, with Neutral where nothing was learnt: a probe's place is taken
// until then or until its lease ends. The error is the store's, as in Allow.
func (b *Breaker) Record(p Permit, v Verdict, now time.Time) error {
	cfg := b.cfg
	cfg.eager = cfg.Eager != nil && cfg.Eager(now)
	b.mu.Lock()
	defer b.unlock()
	err := b.refresh(now)
	u := rand.Float64()
	if cfg.Record(b.state, p.Gen, v, now.Add(b.ahead), u) == b.state {
		return err
	}
	return b.update(now, func(s State, clock time.Time) State {
		return cfg.Record(s, p.Gen, v, clock, u)
	})
}

// State returns the state as last seen, which is the zero State before the
// first Allow.
func (b *Breaker) State() State {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state
}

// refresh reads the state again when the copy is old. The first time it goes
// through Update, which tells the store's clock. requires mu.
func (b *Breaker) refresh(now time.Time) error {
	if b.readAt.IsZero() {
		return b.update(now, func(s State, _ time.Time) State { return s })
	}
	if age := now.Sub(b.readAt); age.Abs() < b.cfg.Fresh {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	s, err := b.store.Load(ctx, b.key)
	b.see(s, now)
	return err
}

// update changes the stored state. The mutex stays held meanwhile: states that
// arrive out of order would be told as changes that never were. requires mu.
func (b *Breaker) update(now time.Time, fn func(State, time.Time) State) error {
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	var clock time.Time
	s, err := b.store.Update(ctx, b.key, func(s State, at time.Time) State {
		clock = at
		return fn(s, at)
	})
	// Waiting for the store makes its clock look ahead of now by as much; for
	// one that is in truth the same, that is no more than the wait.
	if !clock.IsZero() {
		b.ahead = clock.Sub(now)
	}
	b.see(s, now)
	return err
}

// see takes s for the truth. requires mu.
func (b *Breaker) see(s State, now time.Time) {
	thrashes := s.Changes.Thrashing(now.Add(b.ahead))
	n := News{Was: b.state, Is: s, Thrashes: thrashes && !b.thrashes}
	if b.notify != nil && (n.Moved() || n.Was.Force != n.Is.Force || n.Thrashes) {
		b.queue = append(b.queue, n)
	}
	b.state, b.readAt, b.thrashes = s, now, thrashes
}

// unlock releases mu and tells what changed. One caller at a time does the
// telling, so that changes arrive in order.
func (b *Breaker) unlock() {
	for !b.notifies && len(b.queue) > 0 {
		told := b.queue
		b.queue, b.notifies = nil, true
		b.mu.Unlock()
		for _, n := range told {
			b.notify(n)
		}
		b.mu.Lock()
		b.notifies = false
	}
	b.mu.Unlock()
}

package oauth

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"trafficup/internal/secret"
)

// grant is what a fetch brings.
type grant struct {
	value    secret.Secret
	lifetime time.Duration // nought: not known
	left     time.Duration // of lifetime
	found    bool          // another process had fetched it
}

// refresher keeps a token that can be fetched anew. There is one fetch at a time;
// all who need its outcome wait for it.
type refresher struct {
	name string // of who is asked
	// fetch gets a token. One that others have fetched will do when it is not
	// old, the one in use. Only one fetch runs at a time.
	fetch       func(ctx context.Context, old secret.Secret) (grant, error)
	timeout     time.Duration // of a fetch
	minInterval time.Duration // between fetches, unless a token is refused
	ahead       float64       // part of the lifetime at whose beginning to refresh

	mu        sync.Mutex
	paths     standings     // guarded by mu
	token     Token         // guarded by mu; generation 0: none yet
	due       time.Time     // guarded by mu; when to refresh; zero: never
	refused   bool          // guarded by mu; the API does not take the token
	renewed   bool          // guarded by mu; it was fetched because the one before was refused
	err       error         // guarded by mu; of the last fetch
	notBefore time.Time     // guarded by mu; the next fetch
	flight    chan struct{} // guarded by mu; closed when the fetch under way ends; nil: none
	begun     time.Time     // guarded by mu; that fetch, or the last one
}

func (r *refresher) Token(ctx context.Context) (Token, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.get(ctx)
}

// witnessed is how long what another path took counts, in least intervals: one
// that has not been used for longer cannot tell that a token is still good.
const witnessed = 3

func (r *refresher) Refuse(ctx context.Context, generation uint64, path string) (Token, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// Whoever names another generation is late: somebody has refreshed already.
	if generation == r.token.Generation && generation > 0 {
		now := time.Now()
		// The refusal of a token that has expired says nothing about the next.
		if !r.expired(now) {
			passed := r.paths[path].passed
			if r.paths.refuse(path, generation, witnessed*r.minInterval, now) {
				return Token{}, ErrPath
			}
			if r.renewed && passed != generation && now.Sub(r.token.Received) < r.minInterval {
				return Token{}, ErrSame
			}
		}
		r.refused = true
	}
	return r.get(ctx)
}

func (r *refresher) Accept(generation uint64, path string, took bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.paths == nil {
		r.paths = standings{}
	}
	r.paths.accept(path, generation, took, time.Now())
}

// get returns the token, after a fetch when there is none that may be used.
// requires mu.
func (r *refresher) get(ctx context.Context) (Token, error) {
	for {
		now := time.Now()
		usable := r.token.Generation > 0 && !r.refused
		early := now.Before(r.notBefore)
		switch {
		case usable && !r.expired(now):
			if !early && r.flight == nil && !r.due.IsZero() && !now.Before(r.due) {
				r.begin()
			}
			return r.token, nil
		case early && r.err != nil:
			return Token{}, r.err
		case early && usable:
			return r.token, nil // it lives shorter than we may ask; the API will tell
		}
		if err := r.await(ctx); err != nil {
			return Token{}, err
		}
	}
}

func (r *refresher) expired(now time.Time) bool {
	return !r.token.Expires.IsZero() && !now.Before(r.token.Expires)
}

// patience is how long a fetch is waited for when the one before failed. It goes
// on, but who waits has to see when waiting as such takes too long.
const patience = time.Second

// await waits for a fetch, which it starts when there is none. requires mu, which
// it gives away meanwhile.
func (r *refresher) await(ctx context.Context) error {
	if r.flight == nil {
		r.begin()
	}
	done, begun, last := r.flight, r.begun, r.err
	r.mu.Unlock()
	defer r.mu.Lock()
	var enough <-chan time.Time
	if errors.Is(last, ErrUnavailable) {
		enough = time.After(patience)
	}
	select {
	case <-done:
		return nil
	case <-enough:
		return last
	case <-ctx.Done():
		return fmt.Errorf("%s has not answered for %s: %w", r.name, time.Since(begun).Round(100*time.Millisecond), context.Cause(ctx))
	}
}

// begin starts a fetch. It has no caller's context: a refresh token that was
// sent is used up, and its answer must not be lost because one record's time
// was over. requires mu.
func (r *refresher) begin() {
	done, old := make(chan struct{}), r.token.Value
	r.flight, r.begun = done, time.Now()
	go func() {
		defer close(done)
		ctx, cancel := context.WithTimeout(context.Background(), r.timeout)
		defer cancel()
		g, err := r.fetch(ctx, old)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.flight = nil
		r.settle(g, err, time.Now())
	}()
}

// settle takes the outcome of a fetch. requires mu.
func (r *refresher) settle(g grant, err error, now time.Time) {
	same := g.value.Equal(r.token.Value)
	if err == nil && same && r.refused {
		err = ErrSame
	}
	r.err = err
	if err != nil {
		wait := r.minInterval
		if f, ok := errors.AsType[*failure](err); ok {
			wait = max(wait, f.wait)
			f.again = now.Add(wait)
		}
		r.notBefore = now.Add(wait)
		return
	}
	if !g.found {
		r.notBefore = now.Add(r.minInterval)
	}
	if !same {
		r.renewed = r.refused && !g.found
		r.token.Generation++
	}
	r.refused = false
	r.token.Value = g.value
	r.token.Received = now.Add(g.left - g.lifetime)
	r.token.Expires, r.due = time.Time{}, time.Time{}
	if g.lifetime > 0 {
		r.token.Expires = now.Add(g.left)
		// A little later than it might be, by chance: those who share a server
		// shall not ask it all at once.
		margin := r.ahead * float64(g.lifetime) * (1 - rand.Float64()/4)
		r.due = r.token.Expires.Add(-time.Duration(margin))
	}
}

package breaker

import (
	"context"
	"sync"
	"time"
)

// Store keeps states by key, one key for each path of an API. Implementations
// are safe for concurrent use and pass the suite in package breakertest.
type Store interface {
	// Update replaces the state under key (zero when there is none) by what
	// fn makes of it, as one step against all other updates of that key, and
	// returns the result. fn gets the store's clock, may be called more than
	// once, has to be pure, and must not call the store. A result equal to
	// what is stored is not written.
	//
	// With an error the state is valid nevertheless: it is what fn made of
	// the last state known, and the store goes on with it in memory.
	Update(ctx context.Context, key string, fn func(State, time.Time) State) (State, error)
	// Load returns the state under key. With an error it is the last known.
	Load(ctx context.Context, key string) (State, error)
}

// NewMemory returns a Store that lasts as long as the process.
func NewMemory() Store { return &memory{states: make(map[string]State)} }

type memory struct {
	mu     sync.Mutex
	states map[string]State // guarded by mu
}

func (m *memory) Update(_ context.Context, key string, fn func(State, time.Time) State) (State, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := fn(m.states[key], time.Now())
	m.states[key] = s
	return s, nil
}

func (m *memory) Load(_ context.Context, key string) (State, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.states[key], nil
}

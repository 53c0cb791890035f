package ratelimit

import (
	"context"
	"slices"
	"sync"
	"time"
)

// AdaptiveConfig bounds an [Adaptive]. With Min equal to Max the limit is fixed.
type AdaptiveConfig struct {
	Min, Max int // calls in flight; Min is at least 1, Max at least Min
}

// Sample is what one call tells about the server's load.
type Sample struct {
	Duration time.Duration // from sending to the end of the answer; 0: the call tells nothing of it
	RTT      time.Duration // of the connection meanwhile; 0: not known
	Shrink   bool          // the answer was 429 or 503, or there was none in time
	Frozen   bool          // the gate was closed meanwhile
}

// Adaptive bounds the calls in flight on one path by what its server bears. Safe
// for concurrent use.
type Adaptive struct {
	mu      sync.Mutex
	climb   climb           // guarded by mu
	inUse   int             // guarded by mu
	waiting []chan struct{} // guarded by mu; first come, first served; closed when granted
}

// NewAdaptive returns an Adaptive for one path.
func NewAdaptive(cfg AdaptiveConfig) *Adaptive {
	cfg.Min = max(cfg.Min, 1)
	cfg.Max = max(cfg.Max, cfg.Min)
	return &Adaptive{climb: newClimb(cfg)}
}

// Acquire returns nil when a call may be sent, callers in the order they came;
// Release has to follow. It returns ctx's error when that ends first.
func (a *Adaptive) Acquire(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	a.mu.Lock()
	if len(a.waiting) == 0 && a.inUse < a.climb.whole() {
		a.inUse++
		a.mu.Unlock()
		return nil
	}
	granted := make(chan struct{})
	a.waiting = append(a.waiting, granted)
	a.mu.Unlock()
	select {
	case <-granted:
		return nil
	case <-ctx.Done():
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if i := slices.Index(a.waiting, granted); i >= 0 {
		a.waiting = slices.Delete(a.waiting, i, i+1)
	} else {
		a.inUse-- // granted in the last moment
		a.grant()
	}
	return ctx.Err()
}

// Release gives back the place of one Acquire and says what came of the call.
func (a *Adaptive) Release(s Sample, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.climb.learn(s, a.inUse >= a.climb.whole(), now)
	a.inUse--
	a.grant()
}

// Limit returns the calls that may be in flight now.
func (a *Adaptive) Limit() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.climb.whole()
}

// grant lets in those who wait as far as the limit allows. requires mu.
func (a *Adaptive) grant() {
	for len(a.waiting) > 0 && a.inUse < a.climb.whole() {
		a.inUse++
		close(a.waiting[0])
		a.waiting = a.waiting[1:]
	}
}

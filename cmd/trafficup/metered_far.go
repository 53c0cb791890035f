package main

import (
	"context"
	"sync"
	"time"

	"trafficup/internal/redis"
	"trafficup/internal/uplinkstate"
)

const (
	farLook  = 2 * time.Second // between two questions to Redis
	farStale = time.Minute     // as long an answer holds while Redis is away
)

// farUplink is the uplink that carries at this site, as its edge node tells other
// hosts over Redis. It is safe for concurrent use.
type farUplink struct {
	read func(ctx context.Context) (u redis.Uplink, ok bool, err error)

	mu    sync.Mutex
	state uplinkstate.Uplink // guarded by mu
	until time.Time          // guarded by mu; as long it holds
}

// newFarUplink returns nil where nobody is known who tells.
func (c Config) newFarUplink(cl *redis.Client) *farUplink {
	if cl == nil || c.Failover.Site == "" {
		return nil
	}
	return &farUplink{read: func(ctx context.Context) (redis.Uplink, bool, error) { return cl.ReadUplink(ctx, c.Failover.Site) }}
}

// Now returns what was told last.
func (f *farUplink) Now() (s uplinkstate.Uplink, known bool) {
	if f == nil {
		return s, false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !time.Now().Before(f.until) {
		return s, false
	}
	return f.state, true
}

// ask asks once. That Redis is away, it says itself; what it told last holds on.
func (f *farUplink) ask(ctx context.Context) {
	u, ok, err := f.read(ctx)
	if err != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state, f.until = u.Uplink, time.Time{}
	if ok {
		f.until = time.Now().Add(farStale)
	}
}

// follow asks from time to time until ctx ends.
func (f *farUplink) follow(ctx context.Context) {
	t := time.NewTicker(farLook)
	defer t.Stop()
	for f != nil {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			f.ask(ctx)
		}
	}
}

package oauth

import (
	"context"
	"errors"
	"fmt"
	"time"

	"trafficup/internal/atomicfile"
	"trafficup/internal/secret"
)

// keeper is the source of an OAuth 2 client, which tries again to keep what it
// could not.
type keeper struct {
	*refresher
	client *client
}

func (k keeper) Token(ctx context.Context) (Token, error) {
	k.client.keepAgain(time.Now(), false)
	return k.refresher.Token(ctx)
}

// Keep tries a last time to write what the cache file lacks. Call it when the
// run ends.
func (k keeper) Keep() { k.client.keepAgain(time.Now(), true) }

// open takes the cache file, and what it holds, until unlock is called. Where it
// cannot be used but could be before, ok is false without an error: the run goes
// on in memory. requires mu.
func (c *client) open(ctx context.Context) (k kept, unlock func(), ok bool, err error) {
	// Waiting must not eat the time of the request: one that is cut off may
	// cost the refresh token.
	ctx, cancel := context.WithTimeout(ctx, 2*c.Timeout)
	defer cancel()
	free, err := atomicfile.Lock(ctx, c.CacheFile+".lock", "token")
	if errors.Is(err, atomicfile.ErrLocked) {
		return kept{}, nil, false, unavailable(err.Error())
	}
	if err == nil {
		unlock = func() { _ = free() } // the kernel does it in the end
		k, err = load(c.fsys, c.CacheFile, c.who)
		if err == nil || errors.Is(err, errCache) {
			if err != nil {
				c.Warn(err.Error())
			}
			c.opened, c.before = true, k.refresh
			return k, unlock, true, nil
		}
		unlock()
	}
	if !c.opened {
		return kept{}, nil, false, &failure{kind: ErrCache, text: words(err.Error())}
	}
	c.Warn("token is kept in memory only: " + err.Error())
	return kept{}, nil, false, nil
}

// keep makes a grant durable. When that fails the run goes on with what it has in
// memory: the refresh token that is in the file has been used up either way.
// requires mu.
func (c *client) keep(g grant, refresh secret.Secret) {
	c.last = kept{access: g.value, refresh: refresh, received: time.Now().UTC()}
	if g.lifetime > 0 {
		c.last.expires = c.last.received.Add(g.lifetime)
	}
	if c.CacheFile == "" {
		return
	}
	err := save(c.fsys, c.CacheFile, c.who, c.last)
	c.unsaved, c.tried = err != nil, time.Now()
	switch {
	case err == nil:
		c.before = refresh
	case refresh.Equal(c.RefreshToken):
		c.Warn(fmt.Sprintf("token is not kept: %v", err))
	default:
		c.Lost(fmt.Sprintf("the refresh token, which the server has replaced, is not kept; the next run is denied unless it can be: %v", err))
	}
}

// keepAgain writes what could not be kept, every MinInterval and when the run
// ends. Nobody is waited for: who holds the file or asks for a token comes first.
func (c *client) keepAgain(now time.Time, end bool) {
	if !c.mu.TryLock() {
		return
	}
	defer c.mu.Unlock()
	if !c.unsaved || !end && now.Sub(c.tried) < c.MinInterval {
		return
	}
	c.tried = now
	unlock, err := atomicfile.TryLock(c.CacheFile+".lock", "token")
	if err != nil {
		return
	}
	defer func() { _ = unlock() }()
	k, err := load(c.fsys, c.CacheFile, c.who)
	if err == nil && !k.refresh.IsZero() && !k.refresh.Equal(c.before) {
		c.unsaved = false // another process has a later one
		return
	}
	if (err == nil || errors.Is(err, errCache)) && save(c.fsys, c.CacheFile, c.who, c.last) == nil {
		c.unsaved, c.before = false, c.last.refresh
		c.Lost("the token is kept now, in " + c.CacheFile)
	}
}

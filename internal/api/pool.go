package api

import (
	"context"
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// Renew ends every idle connection now, and those in use after their answer:
// what is sent from now on dials, and so resolves the name, anew. It is for a
// path that failed for long and is to be tried again.
func (c *Client) Renew() {
	c.mu.Lock()
	c.epoch++
	c.mu.Unlock()
	c.closeIdle()
}

// Warm opens connections, all at once, until n are idle, TLS handshake included;
// MaxIdle limits n. It returns when all stand or have failed, at the latest after
// ConnectTimeout, and keeps quiet about the latter: the first request that
// needs one will meet the same fault.
func (c *Client) Warm(ctx context.Context, n int) {
	c.mu.Lock()
	n = min(n, c.maxIdle) - len(c.idle)
	c.mu.Unlock()
	deadline := time.Now().Add(c.connectTimeout)
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			cn, err := c.connect(ctx, deadline)
			switch {
			case err != nil:
			case cn.rest():
				c.put(cn)
			default:
				cn.abort()
			}
		})
	}
	wg.Wait()
}

func (c *Client) closeIdle() {
	c.mu.Lock()
	idle := c.idle
	c.idle = nil
	c.mu.Unlock()
	for _, cn := range idle {
		cn.close()
	}
}

// take returns a connection with the attempt's deadline set: an idle one that
// still lives, else a new one.
func (c *Client) take(ctx context.Context, deadline time.Time) (*conn, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, explain(ctx, err, "not started")
		}
		cn, err := c.pop(time.Now())
		if err != nil {
			return nil, err
		}
		if cn == nil {
			return c.connect(ctx, deadline)
		}
		cn.used++
		if cn.alive() && cn.raw.SetDeadline(deadline) == nil {
			return cn, nil
		}
		cn.abort()
	}
}

// pop takes the most recently used idle connection, nil when there is none,
// and closes those past their time.
func (c *Client) pop(now time.Time) (*conn, error) {
	var cn *conn
	var old []*conn
	c.mu.Lock()
	closed := c.closed
	keep := c.idle[:0]
	for _, x := range c.idle {
		if now.Sub(x.restedAt) >= c.maxIdleTime || !now.Before(x.expires) {
			old = append(old, x)
		} else {
			keep = append(keep, x)
		}
	}
	clear(c.idle[len(keep):])
	if n := len(keep); n > 0 && !closed {
		cn, keep[n-1], keep = keep[n-1], nil, keep[:n-1]
	}
	c.idle = keep
	c.mu.Unlock()
	for _, x := range old {
		x.close()
	}
	if closed {
		return nil, ErrClosed
	}
	return cn, nil
}

func (c *Client) put(cn *conn) {
	cn.restedAt = time.Now()
	c.mu.Lock()
	unwanted := c.closed || cn.epoch != c.epoch || len(c.idle) >= c.maxIdle
	if !unwanted {
		c.idle = append(c.idle, cn)
	}
	c.mu.Unlock()
	if unwanted {
		cn.close()
	}
}

// connect dials and shakes hands within ConnectTimeout and the attempt's deadline.
func (c *Client) connect(ctx context.Context, deadline time.Time) (*conn, error) {
	c.mu.Lock()
	epoch := c.epoch // before the name is resolved
	c.mu.Unlock()
	limit := time.Now().Add(c.connectTimeout)
	if deadline.Before(limit) {
		limit = deadline
	}
	dctx, cancel := context.WithDeadline(ctx, limit)
	defer cancel()
	what := fmt.Sprintf("no connection to %s within %v", c.addr, c.connectTimeout)
	nc, err := c.dial(dctx, "tcp", c.addr)
	if err != nil {
		return nil, explain(ctx, fmt.Errorf("connect: %w", err), what)
	}
	raw := newSocket(nc)
	rw := net.Conn(raw)
	if c.tls != nil {
		t := tls.Client(raw, c.tls)
		if err := t.HandshakeContext(dctx); err != nil {
			raw.Close()
			return nil, explain(ctx, fmt.Errorf("tls handshake with %s: %w", c.addr, err), what)
		}
		rw = t
	}
	if err := raw.SetDeadline(deadline); err != nil {
		raw.Close()
		return nil, explain(ctx, fmt.Errorf("connect: %w", err), what)
	}
	cn := newConn(raw, rw)
	cn.epoch, cn.expires = epoch, time.Now().Add(jittered(c.maxAge))
	return cn, nil
}

// jittered spreads d by 10 % either way, so that connections that were opened
// together are not all opened again together.
func jittered(d time.Duration) time.Duration {
	return d - d/10 + rand.N(2*(d/10)+1)
}

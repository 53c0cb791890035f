package api

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// Client sends to one path. It is safe for concurrent use; the number of calls
// of Send in flight is the number of connections in use.
type Client struct {
	target
	policy                  Policy
	connectTimeout, timeout time.Duration
	maxIdle                 int
	maxIdleTime, maxAge     time.Duration
	tls                     *tls.Config
	dial                    dialFunc

	mu     sync.Mutex
	idle   []*conn // most recently used last; guarded by mu
	epoch  int     // how often Renew was called; guarded by mu
	closed bool    // guarded by mu
}

// NewClient checks cfg. It connects to nothing.
func NewClient(cfg Config) (*Client, error) {
	t, err := newTarget(cfg)
	if err != nil {
		return nil, err
	}
	c := &Client{
		target: t, policy: cfg.Policy,
		connectTimeout: positive(cfg.ConnectTimeout, 2*time.Second), timeout: positive(cfg.RequestTimeout, 10*time.Second),
		maxIdle: positive(cfg.MaxIdle, 64), maxIdleTime: positive(cfg.MaxIdleTime, 50*time.Second), maxAge: positive(cfg.MaxAge, 5*time.Minute),
	}
	if c.dial, err = NewDialer(cfg); err != nil {
		return nil, err
	}
	if t.secure {
		c.tls = cfg.tlsConfig(t.host, "http/1.1")
	}
	return c, nil
}

func positive[T int | time.Duration](v, otherwise T) T {
	if v > 0 {
		return v
	}
	return otherwise
}

// Send makes one attempt and writes at most one request. It returns within
// RequestTimeout, and at once when ctx is done.
func (c *Client) Send(ctx context.Context, r Request) (o Outcome) {
	start := time.Now()
	defer func() { o.Duration = time.Since(start) }()
	policy := c.judging(c.policy, r)
	fail := func(err error) Outcome { // nothing was written
		return Classify(Answer{}, err, false, time.Now(), policy)
	}
	if err := c.check(r); err != nil {
		return fail(err)
	}
	timeout := c.timeout
	if r.Timeout > 0 {
		timeout = min(timeout, r.Timeout)
	}
	deadline := start.Add(timeout)
	cn, err := c.take(ctx, deadline)
	if err != nil {
		return fail(err)
	}
	stop := func() bool { return true }
	if ctx.Done() != nil {
		stop = context.AfterFunc(ctx, cn.interrupt)
	}
	cn.wbuf = c.appendTo(cn.wbuf[:0], r)
	a, err := cn.roundTrip(cn.wbuf)
	if err != nil {
		err = explain(ctx, err, "no full answer within "+timeout.String())
		if cn.used > 0 && !errors.Is(err, ErrCancelled) {
			// What ended this one, a link or a server that went away, has ended
			// those that rested beside it: each would cost an attempt of its own.
			c.closeIdle()
		}
	}
	o = Classify(a, err, true, time.Now(), policy)
	o.Link = cn.link
	// A stop that comes too late may still be setting a deadline on the connection.
	if stop() && cn.reusable && a.Status != 408 && a.Status != 421 && cn.rest() {
		c.put(cn)
	} else {
		cn.abort()
	}
	return o
}

// Close closes the idle connections; those in use are closed after their
// answer. Send fails with ErrClosed from then on.
func (c *Client) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.closeIdle()
}

// explain names the reason of an error: the caller's cancel and our deadlines
// both surface as i/o timeouts.
func explain(ctx context.Context, err error, what string) error {
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return fmt.Errorf("%w: %w", ErrCancelled, err)
	case ctx.Err() != nil, errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: %s: %w", ErrTimeout, what, err)
	}
	return err
}

package api

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"
)

const (
	// Below the 60 s after which common servers and NAT boxes drop an idle
	// connection, often without a word.
	maxIdleTime = 50 * time.Second
	// An address that moved is noticed after this long even on a busy path.
	maxConnAge = 5 * time.Minute
)

// Client sends to one path. It is safe for concurrent use; the number of calls
// of Send in flight is the number of connections in use.
type Client struct {
	target
	policy                  Policy
	connectTimeout, timeout time.Duration
	maxIdle                 int
	tls                     *tls.Config
	dial                    func(ctx context.Context, network, addr string) (net.Conn, error)

	mu     sync.Mutex
	idle   []*conn // most recently used last; guarded by mu
	closed bool    // guarded by mu
}

// NewClient checks cfg. It connects to nothing.
func NewClient(cfg Config) (*Client, error) {
	t, err := newTarget(cfg)
	if err != nil {
		return nil, err
	}
	c := &Client{target: t, policy: cfg.Policy, connectTimeout: cfg.ConnectTimeout, timeout: cfg.RequestTimeout, maxIdle: cfg.MaxIdle, dial: cfg.Dial}
	if c.connectTimeout <= 0 {
		c.connectTimeout = 2 * time.Second
	}
	if c.timeout <= 0 {
		c.timeout = 10 * time.Second
	}
	if c.maxIdle <= 0 {
		c.maxIdle = 64
	}
	if c.dial == nil {
		c.dial = (&net.Dialer{}).DialContext
	}
	if t.secure {
		c.tls = &tls.Config{}
		if cfg.TLS != nil {
			c.tls = cfg.TLS.Clone()
		}
		if c.tls.ServerName == "" {
			c.tls.ServerName = t.host
		}
		if c.tls.ClientSessionCache == nil {
			c.tls.ClientSessionCache = tls.NewLRUClientSessionCache(0) // saves a round trip per new connection
		}
		c.tls.NextProtos = []string{"http/1.1"}
	}
	return c, nil
}

// Send makes one attempt and writes at most one request. It returns within
// RequestTimeout, and at once when ctx is done.
func (c *Client) Send(ctx context.Context, r Request) (o Outcome) {
	start := time.Now()
	defer func() { o.Duration = time.Since(start) }()
	fail := func(err error) Outcome { // nothing was written
		return Classify(Answer{}, err, false, time.Now(), c.policy)
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
		if cn.used > 0 && errors.Is(err, ErrTimeout) {
			// The link may have dropped them all; each would cost a timeout of its own.
			c.closeIdle()
		}
	}
	if r.Token != "" && bytes.Contains(a.Body, []byte(r.Token)) {
		// A server that echoes the login must not bring it into a report.
		a.Body = bytes.ReplaceAll(a.Body, []byte(r.Token), []byte("***"))
	}
	o = Classify(a, err, true, time.Now(), c.policy)
	if r.Token != "" {
		o.Receipt = strings.ReplaceAll(o.Receipt, r.Token, "***")
	}
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
		if cn.raw.SetDeadline(deadline) == nil && cn.alive() {
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
		if now.Sub(x.restedAt) >= maxIdleTime || now.Sub(x.born) >= maxConnAge {
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
	full := c.closed || len(c.idle) >= c.maxIdle
	if !full {
		c.idle = append(c.idle, cn)
	}
	c.mu.Unlock()
	if full {
		cn.close()
	}
}

// connect dials and shakes hands within ConnectTimeout and the attempt's deadline.
func (c *Client) connect(ctx context.Context, deadline time.Time) (*conn, error) {
	limit := time.Now().Add(c.connectTimeout)
	if deadline.Before(limit) {
		limit = deadline
	}
	dctx, cancel := context.WithDeadline(ctx, limit)
	defer cancel()
	what := fmt.Sprintf("no connection to %s within %v", c.addr, c.connectTimeout)
	raw, err := c.dial(dctx, "tcp", c.addr)
	if err != nil {
		return nil, explain(ctx, fmt.Errorf("connect: %w", err), what)
	}
	rw := raw
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
	return newConn(raw, rw), nil
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

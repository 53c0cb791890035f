// Package redis is what several machines share: a connection that is never in
// the way, and stores on it.
//
// Every call ends within [Timeout]. After two calls, one after the other, that
// were not answered no more are made; a small write in the background, one at a time,
// finds out when Redis is back. So a server that hangs costs the upload half a
// second once, and nothing from then on.
//
// All keys of one API share a hash tag and with it a slot of a cluster, and all
// of them expire: what is lost or left behind mends itself.
package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

const (
	patience   = 2               // failed calls in a row before they are given up
	firstPause = time.Second     // before the first probe
	longPause  = 2 * time.Second // between probes in the end
	probeTTL   = time.Minute     // of the key that probes write
)

// Client is a connection to Redis for one API. Safe for concurrent use.
type Client struct {
	conn    goredis.UniversalClient
	prefix  string
	timeout time.Duration // Timeout, but in tests of something else
	notify  func(error)

	ctx  context.Context // ends with Close
	end  context.CancelFunc
	work sync.WaitGroup

	mu       sync.Mutex
	failures int       // guarded by mu; in a row
	failedAt time.Time // guarded by mu; when the last of them ended
	paused   error     // guarded by mu; why no calls are made, nil when they are
	closed   bool      // guarded by mu

	calls struct{ ok, timeout, paused, failed atomic.Uint64 }
}

// Calls counts calls by their outcome.
type Calls struct {
	OK      uint64
	Timeout uint64 // no answer in time
	Open    uint64 // not made, because Redis is away
	Error   uint64 // refused, or the connection broke
}

// Open returns a client. It does not connect: an error is one of cfg. The
// caller closes the client.
func Open(cfg Config) (*Client, error) {
	logging.Disable() // the library would write to stderr; we return what happens
	conn, err := connect(cfg)
	if err != nil {
		return nil, err
	}
	c := &Client{conn: conn, timeout: cfg.bound(), notify: cfg.Notify}
	// A brace in the name would end the hash tag.
	c.prefix = "trafficup:{" + strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D").Replace(cfg.API) + "}:"
	c.ctx, c.end = context.WithCancel(context.Background())
	return c, nil
}

// Close ends everything that runs on the client.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.end()
	c.work.Wait()
	return c.conn.Close()
}

// Key returns a key of this API: trafficup:{api}:part:part.
func (c *Client) Key(parts ...string) string { return c.prefix + strings.Join(parts, ":") }

// Calls returns the counts so far.
func (c *Client) Calls() Calls {
	n := &c.calls
	return Calls{OK: n.ok.Load(), Timeout: n.timeout.Load(), Open: n.paused.Load(), Error: n.failed.Load()}
}

// Do makes one call, whose errors become an [*Error]; of the library's, only
// its Nil stays what it is. While Redis is away fn is not run and the error is
// ErrPaused with the reason. fn has to use the context it gets.
func (c *Client) Do(ctx context.Context, fn func(context.Context, goredis.UniversalClient) error) error {
	if err := c.Paused(); err != nil {
		c.calls.paused.Add(1)
		return err
	}
	return c.attempt(ctx, fn)
}

// Eval runs a script by its hash, and by its text where the server does not
// know it: nothing ran then, so that nothing is done twice.
func (c *Client) Eval(ctx context.Context, script *goredis.Script, keys []string, args ...any) (reply any, err error) {
	err = c.Do(ctx, func(ctx context.Context, conn goredis.UniversalClient) (err error) {
		reply, err = script.Run(ctx, conn, keys, args...).Result()
		return err
	})
	return reply, err
}

// Check finds out whether Redis can be written to, even while it counts as away.
func (c *Client) Check(ctx context.Context) error { return c.attempt(ctx, c.write) }

func (c *Client) write(ctx context.Context, conn goredis.UniversalClient) error {
	return conn.Set(ctx, c.Key("probe"), 1, probeTTL).Err()
}

// Paused returns why no calls are made, nil when they are.
func (c *Client) Paused() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return errClosed
	case c.paused != nil:
		return fmt.Errorf("%w: %w", ErrPaused, c.paused)
	}
	return nil
}

func (c *Client) attempt(ctx context.Context, fn func(context.Context, goredis.UniversalClient) error) error {
	begin := time.Now()
	within, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	err := fn(within, c.conn)
	switch {
	case err == nil || err == goredis.Nil:
		c.calls.ok.Add(1)
		c.answered()
		return err
	case errors.Is(ctx.Err(), context.Canceled): // says nothing about Redis
		return err
	case isTimeout(err):
		c.calls.timeout.Add(1)
	default:
		c.calls.failed.Add(1)
	}
	e := explain(err)
	if e.disables() {
		c.failed(e, begin)
	} else {
		c.answered()
	}
	return e
}

func isTimeout(err error) bool {
	net, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err)
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, goredis.ErrPoolTimeout) || ok && net.Timeout()
}

// answered resets the count. It does not end a pause: that is for the probe, so
// that the end is told after the beginning.
func (c *Client) answered() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failures = 0
}

// failed counts a call that began at begin. Calls that were under way together
// are one failure: they may all have met the same short stall.
func (c *Client) failed(err error, begin time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failures == 0 || !begin.Before(c.failedAt) {
		c.failures, c.failedAt = c.failures+1, time.Now()
	}
	switch {
	case c.paused != nil:
		c.paused = err // the newest reason
	case c.failures >= patience && !c.closed:
		c.paused = err
		c.work.Go(func() { c.probe(err) })
	}
}

// probe tells that Redis is away, waits until it can be written to again, and
// tells that. It writes, because a replica and a full server can be read from,
// and under the tag of the API, because one shard of a cluster can be away.
func (c *Client) probe(reason error) {
	c.tell(reason)
	for pause := firstPause; ; pause = min(2*pause, longPause) {
		select {
		case <-c.ctx.Done():
			return
		case <-time.After(pause):
		}
		if c.Check(c.ctx) == nil {
			break
		}
	}
	c.tell(nil) // before calls are made again, whose failures begin another probe
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failures, c.paused = 0, nil
}

func (c *Client) tell(err error) {
	if c.notify != nil {
		c.notify(err)
	}
}

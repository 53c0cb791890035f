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
	tellEvery  = time.Minute     // at most, trouble
)

// Client is a connection to Redis for one API. Safe for concurrent use.
type Client struct {
	conn    goredis.UniversalClient
	cfg     Config
	prefix  string
	timeout time.Duration // Timeout, but in tests of something else

	ctx  context.Context // ends with Close
	end  context.CancelFunc
	work sync.WaitGroup

	mu       sync.Mutex
	failures int       // guarded by mu; in a row
	failedAt time.Time // guarded by mu; when the last of them ended
	paused   error     // guarded by mu; why no calls are made, nil when they are
	closed   bool      // guarded by mu
	toldAt   time.Time // guarded by mu; of the last trouble told
	clock    Clock     // guarded by mu; zero until Redis has told its time

	telling sync.Mutex // held while cfg.Notify runs

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
	// The library would write to stderr of what we return or tell. It has one
	// logger for the whole process and nothing smaller; nobody else here uses it.
	logging.Disable()
	conn, err := connect(cfg)
	if err != nil {
		return nil, err
	}
	return newClient(cfg, conn), nil
}

func newClient(cfg Config, conn goredis.UniversalClient) *Client {
	c := &Client{conn: conn, cfg: cfg, timeout: cfg.bound()}
	// A brace in the name would end the hash tag.
	c.prefix = "trafficup:{" + strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D").Replace(cfg.API) + "}:"
	c.ctx, c.end = context.WithCancel(context.Background())
	return c
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
	err := safely(func() error { return fn(within, c.conn) })
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
	e := c.cfg.explain(err)
	if e.disables() {
		c.failed(e, begin)
	} else {
		c.answered()
		c.complain(e)
	}
	return e
}

// safely turns a panic into an error: the library panics on some answers that no
// Redis gives.
func safely(fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("answer that is not Redis': %v", p)
		}
	}()
	return fn()
}

func isTimeout(err error) bool {
	net, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err)
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, goredis.ErrPoolTimeout) || ok && net.Timeout()
}

package redis

import (
	"context"
	"errors"
	"net"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"trafficup/internal/breaker"
)

// Patient returns cfg with a bound that a busy machine does not reach, for tests
// that are not about it.
func (cfg Config) Patient() Config { return cfg.Within(10 * time.Second) }

// Within returns cfg with another bound.
func (cfg Config) Within(d time.Duration) Config {
	cfg.timeout = d
	return cfg
}

// OpenOver is Open with connections that dial makes.
func OpenOver(cfg Config, dial func() (net.Conn, error)) *Client {
	logging.Disable()
	opts := cfg.options()
	opts.Dialer = func(context.Context, string, string) (net.Conn, error) { return dial() }
	return newClient(cfg, goredis.NewClient(opts.Simple()))
}

// Now is the time on Redis' clock as the stores take it.
func (c *Client) Now() time.Time { return c.now() }

// Decode is what the stores read under a key.
func Decode(raw string) (breaker.State, uint64, error) {
	d, err := decode(raw)
	return d.State, d.Revision, err
}

// Encode is what they write, after a revision.
func Encode(key string, after uint64, s breaker.State) (string, error) {
	return encode(key, after+1, "", s)
}

// Alone reports whether what this machine knows of a breaker is its own.
func (b *Breakers) Alone(key string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.entries[key].kept.alone
}

// ExplainReply says what an error of the server means.
func ExplainReply(text string) *Error { return explainReply(text, errors.New(text)) }

// Explain says what an error of a call means.
func (cfg Config) Explain(err error) *Error { return cfg.explain(err) }

// Disables tells whether calls after this one will fail, too.
func (e *Error) Disables() bool { return e.disables() }

package redis_test

import (
	"flag"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"go.uber.org/goleak"

	"trafficup/internal/breaker"
	"trafficup/internal/redis"
	"trafficup/internal/redis/redistest"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(uploaderURL); url != "" {
		os.Exit(uploader(url))
	}
	// The tests that run side by side wait for servers nearly all the time.
	flag.Parse()
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

func config(s *redistest.Server) redis.Config { return redis.Config{API: "test", URL: s.URL()} }

func open(t *testing.T, cfg redis.Config) *redis.Client {
	t.Helper()
	c, err := redis.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, c)
	return c
}

func closeAfter(t *testing.T, c *redis.Client) {
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// store is a store whose calls end in time on a busy machine, too.
func store(t *testing.T, s *redistest.Server) *redis.Breakers {
	return open(t, config(s).Patient()).Breakers(openMax, nil)
}

// mini is a client of a stand-in without sockets, which works in a bubble.
func mini(t *testing.T, m *miniredis.Miniredis, cfg redis.Config) *redis.Client {
	cfg.API = "test"
	c := redis.OpenOver(cfg, func() (net.Conn, error) {
		server, err := m.Dial()
		if err != nil {
			return nil, err
		}
		return buffered(server), nil
	})
	closeAfter(t, c)
	return c
}

// answer lets the stand-in of a bubble give that error to every command; "": no
// more. It is not for those that are at work on a script.
func answer(m *miniredis.Miniredis, text string) {
	synctest.Wait()
	m.SetError(text)
}

// buffered lets the other end of a pipe write without being read, as a socket
// does: the stand-in holds a mutex meanwhile, and time stands still in a bubble
// whose goroutines wait for one.
func buffered(server net.Conn) net.Conn {
	client, inner := net.Pipe()
	chunks := make(chan []byte, 1000)
	go func() {
		defer close(chunks)
		for {
			chunk := make([]byte, 4096)
			n, err := server.Read(chunk)
			if err != nil {
				return
			}
			chunks <- chunk[:n]
		}
	}()
	go func() {
		for chunk := range chunks {
			_, _ = inner.Write(chunk) // what comes after its end is nobody's
		}
		_ = inner.Close()
	}()
	go func() {
		_, _ = io.Copy(server, inner)
		_ = server.Close()
	}()
	return client
}

// wait polls for something that other processes do in their own time.
func wait(t *testing.T, what string, ok func() bool) time.Duration {
	t.Helper()
	begin := time.Now()
	redistest.Wait(t, what, ok)
	return time.Since(begin)
}

// flat is the name of a subtest as a part of a key.
func flat(t *testing.T) string { return strings.ReplaceAll(t.Name(), "/", "_") }

const openMax = 5 * time.Minute

func fail(s breaker.State, _ time.Time) breaker.State { s.Failures++; return s }
func same(s breaker.State, _ time.Time) breaker.State { return s }

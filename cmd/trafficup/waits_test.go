package main

import (
	"bytes"
	"context"
	"encoding/json/v2"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"trafficup/internal/disk/disktest"
)

// waited is how a run in a bubble ended.
type waited struct {
	result
	code    int
	letters int
	out     string        // stdout and stderr
	silence time.Duration // the longest time without a word
}

// scribble notes when something is written.
type scribble struct {
	mu      sync.Mutex
	b       bytes.Buffer  // guarded by mu
	last    time.Time     // guarded by mu
	silence time.Duration // guarded by mu
}

func (s *scribble) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.silence, s.last = max(s.silence, time.Since(s.last)), time.Now()
	return s.b.Write(p)
}

// waitIn runs the program in the bubble it is called in, with its disk and its
// links to the hosts in memory.
func waitIn(t *testing.T, hosts map[string]http.Handler, args ...string) waited {
	t.Helper()
	return waitDial(t, hosts, func(ctx context.Context, network, addr string, dial dialing) (net.Conn, error) {
		return dial(ctx, network, addr)
	}, args...)
}

type dialing func(ctx context.Context, network, addr string) (net.Conn, error)

// waitDial is waitIn with something in the way of connections.
func waitDial(t *testing.T, hosts map[string]http.Handler, between func(ctx context.Context, network, addr string, dial dialing) (net.Conn, error), args ...string) waited {
	t.Helper()
	return waitOn(t, disktest.New(), hosts, between, args...)
}

// waitOn is waitDial with a disk on which there is something already.
func waitOn(t *testing.T, disk *disktest.Disk, hosts map[string]http.Handler, between func(ctx context.Context, network, addr string, dial dialing) (net.Conn, error), args ...string) waited {
	t.Helper()
	listeners := map[string]*pipes{}
	for host, h := range hosts {
		l := newPipes()
		srv := &http.Server{Handler: h}
		go srv.Serve(l)
		defer srv.Close()
		listeners[host] = l
	}
	hard, abandon := context.WithCancel(t.Context())
	defer abandon()
	out := &scribble{last: time.Now()}
	code := run(system{
		args:  append(args, "--state-dir", "/state", "--breaker-store", "memory"),
		stdin: strings.NewReader(""), stdout: out, stderr: out, soft: hard, hard: hard, signal: new(atomic.Int32), graceful: new(atomic.Bool),
		fs: disk.FS(), random: rand.Float64,
		lock: func(context.Context, string, string) (func() error, error) { return func() error { return nil }, nil },
		dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			host, _, err := net.SplitHostPort(addr)
			if err != nil || listeners[host] == nil {
				return nil, fmt.Errorf("no host %q: %w", addr, err)
			}
			return between(ctx, network, addr, listeners[host].dial)
		},
	})
	w := waited{code: code, out: out.b.String(), silence: out.silence}
	for _, name := range disk.Names() {
		b, _ := disk.Bytes(name)
		switch {
		case strings.HasSuffix(name, "report.json"):
			if err := json.Unmarshal(b, &w.result); err != nil {
				t.Fatal(err)
			}
		case strings.HasPrefix(name, "/state/deadletters/"):
			w.letters += bytes.Count(b, []byte("\n"))
		}
	}
	return w
}

// all asserts that a run delivered all n records and gave none up.
func (w waited) all(t *testing.T, n int64) {
	t.Helper()
	if w.code != exitOK || w.Acked != n || w.letters != 0 {
		t.Fatalf("exit %d, %d letters, %+v\n%s", w.code, w.letters, w.Counts, w.out)
	}
}

// calls notes when requests came and for which keys.
type calls struct {
	mu    sync.Mutex
	times []time.Time    // guarded by mu
	keys  map[string]int // guarded by mu
}

// note returns which request this is, from 1.
func (c *calls) note(r *http.Request) int {
	_, _ = io.Copy(io.Discard, r.Body)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.keys == nil {
		c.keys = map[string]int{}
	}
	c.times = append(c.times, time.Now())
	c.keys[r.Header.Get("Idempotency-Key")]++
	return len(c.times)
}

// between counts requests in [from, to).
func (c *calls) between(from, to time.Time) (n int) {
	for _, at := range c.times {
		if !at.Before(from) && at.Before(to) {
			n++
		}
	}
	return n
}

// gap is the shortest time between two requests.
func (c *calls) gap() time.Duration {
	shortest := time.Duration(1<<63 - 1)
	for i := 1; i < len(c.times); i++ {
		shortest = min(shortest, c.times[i].Sub(c.times[i-1]))
	}
	return shortest
}

const primaryURL, fallbackURL = "http://primary.test/v1/logs", "http://fallback.test/v1/logs"

func alone(h http.HandlerFunc) map[string]http.Handler {
	return map[string]http.Handler{"primary.test": h}
}

// Junk, negative and past values of Retry-After never make a hot loop, however
// often they come; what is a number is waited for.
func TestNoRetryAfterMakesAHotLoop(t *testing.T) {
	night := writeNight(t, 1)
	for value, least := range map[string]time.Duration{
		"soon": 0, "1.5": 0, "": 0, "1e3": 0, "0x10": 0, "5, 7": 0, "-5": 0, "0": 0, "+3": 0, "Sun, 06 Nov 1994 08:49:37 GMT": 0,
		" 5 ": 5 * time.Second, "2": 2 * time.Second,
	} {
		t.Run(value, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var c calls
				waitIn(t, alone(func(w http.ResponseWriter, r *http.Request) {
					if c.note(r) <= 5 {
						w.Header().Set("Retry-After", value)
						w.WriteHeader(http.StatusTooManyRequests)
						return
					}
					w.WriteHeader(http.StatusCreated)
				}), "upload", "--url", primaryURL, night).all(t, 1)
				if got := c.gap(); got < max(least, 100*time.Millisecond) || len(c.times) != 6 {
					t.Errorf("%d calls, one after %s", len(c.times), got)
				}
			})
		})
	}
}

// Two hundred attempts of one record: the waits never shrink to nothing, however
// high the number.
func TestLateAttemptsStillWait(t *testing.T) {
	night := writeNight(t, 1)
	synctest.Test(t, func(t *testing.T) {
		var c calls
		w := waitIn(t, alone(func(w http.ResponseWriter, r *http.Request) {
			c.note(r)
			w.WriteHeader(http.StatusServiceUnavailable)
		}), "upload", "--url", primaryURL, "--max-attempts", "200", "--backoff-base", "1ms", "--backoff-cap", "500ms", "--breaker-threshold", "1000",
			"--retry-budget-min", "1000", night)
		if w.code != exitWaiting || w.Exhausted != 1 || len(c.times) != 200 {
			t.Fatalf("exit %d, %d calls, %+v\n%s", w.code, len(c.times), w.Counts, w.out)
		}
		late := c.times[199].Sub(c.times[99]) / 100
		if c.gap() < 100*time.Millisecond || late < 200*time.Millisecond || late > 350*time.Millisecond {
			t.Errorf("the shortest wait is %s, the mean of the late ones %s, want about 260ms", c.gap(), late)
		}
	})
}

// One answer that asks for a pause holds all sixteen workers.
func TestAPauseHoldsAllWorkers(t *testing.T) {
	night := writeNight(t, 200)
	synctest.Test(t, func(t *testing.T) {
		var c calls
		var mu sync.Mutex
		var asked time.Time
		waitIn(t, alone(func(w http.ResponseWriter, r *http.Request) {
			n := c.note(r)
			mu.Lock()
			if n == 21 {
				asked = time.Now()
			}
			refuse := n > 20 && time.Since(asked) < 3*time.Second
			mu.Unlock()
			time.Sleep(30 * time.Millisecond)
			if refuse {
				w.Header().Set("Retry-After", "3")
				w.WriteHeader(http.StatusTooManyRequests)
				return
			}
			w.WriteHeader(http.StatusCreated)
		}), "upload", "--url", primaryURL, "--concurrency", "16", night).all(t, 200)
		if n := c.between(asked, asked.Add(3*time.Second)); n > 16 {
			t.Errorf("%d requests while the server wanted none", n)
		}
		if n := c.between(asked.Add(3*time.Second), asked.Add(3300*time.Millisecond)); n == 0 || n > 8 {
			t.Errorf("%d requests in the first 300 ms after the pause", n)
		}
	})
}

// A limit by the minute that says nothing of when it ends costs time and no record.
func TestAMinuteWithoutAWordIsOutlasted(t *testing.T) {
	night := writeNight(t, 300)
	synctest.Test(t, func(t *testing.T) {
		var c calls
		var mu sync.Mutex
		minute, taken := int64(0), 0
		w := waitIn(t, alone(func(w http.ResponseWriter, r *http.Request) {
			c.note(r)
			mu.Lock()
			defer mu.Unlock()
			if now := time.Now().Unix() / 60; now != minute {
				minute, taken = now, 0
			}
			if taken++; taken > 200 {
				w.WriteHeader(http.StatusTooManyRequests)
				return
			}
			w.WriteHeader(http.StatusCreated)
		}), "upload", "--url", primaryURL, night)
		w.all(t, 300)
		t.Logf("%d calls in %.0f s", w.Calls, w.DurationS)
	})
}

// However many layers and paths there are, a record is not sent more often than
// was allowed.
func TestAttemptsAreOfARecordNotOfAPath(t *testing.T) {
	night := writeNight(t, 10)
	synctest.Test(t, func(t *testing.T) {
		var c calls
		fails := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			c.note(r)
			w.WriteHeader(http.StatusServiceUnavailable)
		})
		w := waitIn(t, map[string]http.Handler{"primary.test": fails, "fallback.test": fails}, "upload", "--url", primaryURL, "--fallback-url", fallbackURL,
			"--max-attempts", "5", "--breaker-threshold", "4", "--breaker-open", "1s", "--breaker-open-max", "2s", "--retry-budget-min", "1000", night)
		most := 0
		for _, n := range c.keys {
			most = max(most, n)
		}
		if most != 5 || w.Exhausted != 10 || w.code != exitWaiting || w.Paths["primary"] == 0 || w.Paths["fallback"] == 0 {
			t.Errorf("%d requests for one key, exit %d, %+v, by path %v\n%s", most, w.code, w.Counts, w.Paths, w.out)
		}
	})
}

// A server that was away for ten minutes is found again within the longest open
// time of the breaker, and meanwhile there is a word each minute.
func TestAfterALongOutageItGoesOn(t *testing.T) {
	night := writeNight(t, 100)
	synctest.Test(t, func(t *testing.T) {
		const away, longest = 10 * time.Minute, 5 * time.Minute
		start := time.Now()
		var c calls
		w := waitIn(t, alone(func(w http.ResponseWriter, r *http.Request) {
			c.note(r)
			if time.Since(start) < away {
				w.WriteHeader(http.StatusBadGateway)
				return
			}
			w.WriteHeader(http.StatusCreated)
		}), "upload", "--url", primaryURL, "--halt-after", "30m", "--breaker-open-max", longest.String(), "--progress", "plain", night)
		w.all(t, 100)
		i := slices.IndexFunc(c.times, func(at time.Time) bool { return at.Sub(start) >= away })
		if late := c.times[i].Sub(start) - away; late > longest*12/10 {
			t.Errorf("first asked %s after its return", late)
		}
		if ended := time.Duration(w.DurationS*1e9) - away; ended > longest*12/10+2*time.Second {
			t.Errorf("ended %s after its return", ended)
		}
		if w.silence > time.Minute {
			t.Errorf("silent for %s\n%s", w.silence, w.out)
		}
	})
}

// An answer that says of its parts that some failed is no ack.
func TestPartOfIsNoAck(t *testing.T) {
	night := writeNight(t, 1)
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			status int
			body   string
		}{{207, `{"results":[{"status":200},{"status":429}]}`}, {200, `{"error":"one failed"}`}, {200, `{"errors":["one failed"]}`}} {
			w := waitIn(t, alone(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			}), "upload", "--url", primaryURL, "--max-attempts", "2", night)
			if w.Acked != 0 || w.code == exitOK || w.letters != 1 {
				t.Errorf("%d %s: exit %d, %d letters, %+v", c.status, c.body, w.code, w.letters, w.Counts)
			}
		}
	})
}

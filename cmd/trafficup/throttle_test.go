package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"trafficup/internal/api"
	"trafficup/internal/breaker"
	"trafficup/internal/envelope"
	"trafficup/internal/journal"
	"trafficup/internal/ratelimit"
	"trafficup/internal/retry"
	"trafficup/internal/secret"
	"trafficup/internal/uploader"
)

// pipes is a listener in memory, fit for a bubble.
type pipes struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { p.once.Do(func() { close(p.done) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes"} }
func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.conns <- server:
		return client, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type someRecords struct{ left int }

func (s *someRecords) Next(context.Context) (uploader.Item, error) {
	if s.left == 0 {
		return uploader.Item{}, io.EOF
	}
	s.left--
	return uploader.Item{Record: uploader.Record{Record: envelope.Record{
		SpotID: fmt.Sprint("S", s.left), Key: fmt.Sprintf("key-%05d", s.left), Body: []byte(`{"a":"b"}`),
	}}}, nil
}

// The whole stack, engine and client, against every form of Retry-After: no
// request comes earlier than asked, none in a hot loop, none past the cap.
func TestRetryAfterForms(t *testing.T) {
	in4s := func(layout string) func(time.Time) string {
		return func(now time.Time) string { return now.UTC().Add(4 * time.Second).Format(layout) }
	}
	is := func(s string) func(time.Time) string { return func(time.Time) string { return s } }
	floor := retry.Default().Floor
	forms := []struct {
		name     string
		value    func(now time.Time) string
		min, max time.Duration // of the wait
		deferred bool
	}{
		{"seconds", is("4"), 4 * time.Second, 5 * time.Second, false},
		{"IMF-fixdate", in4s(http.TimeFormat), 3 * time.Second, 5 * time.Second, false},
		{"RFC 850", in4s("Monday, 02-Jan-06 15:04:05 GMT"), 3 * time.Second, 5 * time.Second, false},
		{"asctime", in4s(time.ANSIC), 3 * time.Second, 5 * time.Second, false},
		{"past date", is("Sun, 06 Nov 1994 08:49:37 GMT"), floor, 2 * time.Second, false},
		{"negative", is("-5"), floor, 2 * time.Second, false},
		{"fraction", is("1.5"), floor, 2 * time.Second, false},
		{"empty", is(""), floor, 2 * time.Second, false},
		{"overflow", is("9223372037"), 0, 0, true},
	}
	for _, f := range forms {
		t.Run(f.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var calls []time.Time
				l := newPipes()
				srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					mu.Lock()
					defer mu.Unlock()
					calls = append(calls, time.Now())
					if len(calls) == 1 {
						w.Header().Set("Retry-After", f.value(time.Now()))
						w.WriteHeader(http.StatusTooManyRequests)
						return
					}
					w.WriteHeader(http.StatusCreated)
				})}
				go srv.Serve(l)
				defer srv.Close()
				s, _, err := throughStack(t, l, 1, 1)
				if err != nil {
					t.Fatal(err)
				}
				if f.deferred {
					if s.Deferred != 1 || len(calls) != 1 {
						t.Fatalf("%d calls, %+v", len(calls), s.Counts)
					}
					return
				}
				if s.Acked != 1 || len(calls) != 2 {
					t.Fatalf("%d calls, %+v", len(calls), s.Counts)
				}
				if wait := calls[1].Sub(calls[0]); wait < f.min || wait > f.max {
					t.Fatalf("waited %s, want %s to %s", wait, f.min, f.max)
				}
			})
		})
	}
}

// throughStack delivers n records over the engine, the real client, breaker,
// gate and budget; it returns how often the breaker opened.
func throughStack(t *testing.T, l *pipes, n, concurrency int) (uploader.Summary, int, error) {
	t.Helper()
	client, err := api.NewClient(api.Config{
		URL: "http://api.test/v1/logs", UserAgent: "test", KeyForm: "bare", Dial: l.dial, MaxIdle: concurrency,
		ConnectTimeout: time.Second, RequestTimeout: 5 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	opened := 0
	var mu sync.Mutex
	br := breaker.New(breaker.DefaultConfig(), breaker.NewMemory(), "primary", func(n breaker.News) {
		mu.Lock()
		defer mu.Unlock()
		if n.Moved() && n.Is.Phase == breaker.Open {
			opened++
		}
	})
	s, err := uploader.Run(context.Background(), context.Background(), uploader.Config{
		Concurrency: concurrency, QueueSize: 100, MaxAttempts: 5, MaxThrottles: maxThrottles, RequestTimeout: 5 * time.Second,
		RetryAfterCap: time.Minute, HaltAfter: time.Minute, IntakeGap: time.Second, Waits: retry.Default(),
	}, uploader.Parts{
		Feed: &someRecords{left: n}, Journal: ledger{journal.Memory()}, DeadLetters: noLetters{}, Rand: rand.Float64,
		Paths: []uploader.Path{{Name: "primary", Sender: &sender{masks: new(secret.Redactor), client: client, runID: "run"}, Breaker: &pathBreaker{b: br, warn: func(string) {}},
			Gate: new(ratelimit.Gate), Budget: retry.NewBudget(0.1, 100)}},
	})
	return s, opened, err
}

// Sixteen 429s that were under way together are one message and leave the
// breaker shut.
func TestBurstOfThrottlesLeavesTheBreakerShut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		calls := 0
		l := newPipes()
		srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(100 * time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			if calls++; calls <= 16 {
				w.WriteHeader(http.StatusTooManyRequests)
				return
			}
			w.WriteHeader(http.StatusCreated)
		})}
		go srv.Serve(l)
		defer srv.Close()
		s, opened, err := throughStack(t, l, 64, 16)
		if err != nil || s.Acked != 64 || s.Throttled != 16 || opened != 0 {
			t.Fatalf("opened %d times, %+v, %v", opened, s, err)
		}
	})
}

// An endpoint that answers nothing but 429 is down: eight rounds open the breaker.
func TestNothingButThrottlesOpensTheBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var calls []time.Time
		l := newPipes()
		srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			calls = append(calls, time.Now())
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		})}
		go srv.Serve(l)
		defer srv.Close()
		s, opened, err := throughStack(t, l, 64, 4)
		if !errors.Is(err, uploader.ErrHalted) || opened == 0 || s.Acked != 0 || s.Halted != s.Read {
			t.Fatalf("opened %d times, %+v, %v", opened, s, err)
		}
		// Eight rounds of at most four, and the probes of a minute.
		if len(calls) > 8*4+4 {
			t.Fatalf("%d calls", len(calls))
		}
	})
}

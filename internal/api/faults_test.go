package api

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"trafficup/internal/breaker"
)

func TestEachSendIsOneHit(t *testing.T) {
	const n = 5
	for _, tc := range []struct {
		name   string
		answer string // "" hangs up; otherwise hangs up after it
		class  Class
		status int
	}{
		{"closed without an answer", "", Retry, 0},
		{"half a status line", "HTTP/1.1 20", Retry, 0},
		{"garbage", "\x00\x01\x02\r\n\r\n", Retry, 0},
		{"cut in the body", "HTTP/1.1 201 Created\r\nContent-Length: 100\r\n\r\n{", Retry, 0},
		{"cut chunks", "HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{", Retry, 0},
		{"refusal cut in the body", "HTTP/1.1 422 No\r\nContent-Length: 100\r\n\r\n{", Rejected, 422},
		{"only interim", strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 100), Retry, 0},
		{"two lengths", "HTTP/1.1 201 Created\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}", Retry, 0},
		{"redirect", "HTTP/1.1 307 Moved\r\nLocation: http://127.0.0.1:1/\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", ConfigFault, 307},
		{"close-delimited", "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{}", Acked, 200},
		{"http/1.0", "HTTP/1.0 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}", Acked, 200},
		{"connection close", "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n", Acked, 204},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newRawServer(t, func(s *rawServer, c net.Conn, br *bufio.Reader) {
				if _, _, err := s.read(br); err == nil {
					io.WriteString(c, tc.answer)
				}
			})
			c := newTestClient(t, s.url(), nil)
			for i := range n {
				o := c.Send(t.Context(), record(i))
				if o.Class != tc.class || o.Status != tc.status || !o.Wrote {
					t.Fatalf("%+v", o)
				}
			}
			if h := s.hits.Load(); h != n {
				t.Errorf("%d hits for %d sends", h, n)
			}
		})
	}
}

// A server that reads a request on a reused connection and hangs up has perhaps
// applied it. net/http would send it again by itself.
func TestReusedConnectionClosedAfterReading(t *testing.T) {
	s := newRawServer(t, func(s *rawServer, c net.Conn, br *bufio.Reader) {
		for i := 0; i < 2; i++ {
			if _, _, err := s.read(br); err != nil {
				return
			}
			if i == 0 {
				io.WriteString(c, created)
			}
		}
	})
	c := newTestClient(t, s.url(), nil)
	for i := range 10 {
		o := c.Send(t.Context(), record(i))
		if want := []Class{Acked, Retry}[i%2]; o.Class != want || !o.Wrote {
			t.Fatalf("send %d: %+v", i, o)
		}
	}
	if h, n := s.hits.Load(), s.conns.Load(); h != 10 || n != 5 {
		t.Errorf("%d hits on %d connections", h, n)
	}
}

// What arrives on an idle connection ends it before the next request is written.
func TestIdleConnectionThatDied(t *testing.T) {
	for name, last := range map[string]string{"closed": "", "said something": "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n"} {
		t.Run(name, func(t *testing.T) {
			s := newRawServer(t, func(s *rawServer, c net.Conn, br *bufio.Reader) {
				if _, _, err := s.read(br); err == nil {
					io.WriteString(c, created)
					io.WriteString(c, last)
				}
			})
			c := newTestClient(t, s.url(), nil)
			for i := range 5 {
				if o := c.Send(t.Context(), record(i)); o.Class != Acked {
					t.Fatalf("send %d: %+v", i, o)
				}
				waitDead(t, c)
			}
			if h := s.hits.Load(); h != 5 {
				t.Errorf("%d hits", h)
			}
		})
	}
}

// waitDead waits until every idle connection has something to read.
func waitDead(t *testing.T, c *Client) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cn := range c.idle {
		if _, err := cn.br.Peek(1); err == nil || errors.Is(err, errTooLong) {
			continue // the bytes are there; alive sees them in the buffer
		} else if err != io.EOF {
			t.Logf("idle connection: %v", err)
		}
	}
}

func TestAnswersAndReuse(t *testing.T) {
	const hints = "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
	for _, tc := range []struct {
		name, answer string
		class        Class
		status       int
		conns        int64
	}{
		{"plain", created, Acked, 201, 1},
		{"hints", strings.Repeat(hints, 5) + created, Acked, 201, 1},
		{"endless hints", strings.Repeat(hints, 40), Retry, 0, 3},
		{"chunked", "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX-Trailer: 1\r\n\r\n", Acked, 200, 1},
		{"204 with a body", "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello", Acked, 204, 3},
		{"extra bytes", created + "more", Acked, 201, 3},
		{"two answers", created + created, Acked, 201, 3},
		{"long refusal", "HTTP/1.1 422 No\r\nContent-Length: 200000\r\n\r\n" + strings.Repeat("x", 200000), Rejected, 422, 3},
		{"exactly the limit", "HTTP/1.1 422 No\r\nContent-Length: 65536\r\n\r\n" + strings.Repeat("x", 65536), Rejected, 422, 1},
		{"408", "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n", Retry, 408, 3},
		{"503", "HTTP/1.1 503 Busy\r\nContent-Length: 3\r\n\r\nno\n", Retry, 503, 1},
		{"huge header", "HTTP/1.1 201 Created\r\nX: " + strings.Repeat("x", 100<<10) + "\r\n\r\n", Retry, 0, 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newRawServer(t, always(tc.answer))
			c := newTestClient(t, s.url(), nil)
			for i := range 3 {
				if o := c.Send(t.Context(), record(i)); o.Class != tc.class || o.Status != tc.status {
					t.Fatalf("send %d: %+v", i, o)
				}
			}
			if h, n := s.hits.Load(), s.conns.Load(); h != 3 || n != tc.conns {
				t.Errorf("%d hits on %d connections, want 3 on %d", h, n, tc.conns)
			}
		})
	}
}

func TestManyRefusalsOneConnection(t *testing.T) {
	s := newRawServer(t, always("HTTP/1.1 503 Busy\r\nContent-Type: text/plain\r\nContent-Length: 1024\r\n\r\n"+strings.Repeat("b", 1024)))
	c := newTestClient(t, s.url(), nil)
	for i := range 5000 {
		if o := c.Send(t.Context(), record(i)); o.Status != 503 {
			t.Fatalf("%+v", o)
		}
	}
	if h, n := s.hits.Load(), s.conns.Load(); h != 5000 || n != 1 {
		t.Errorf("%d hits on %d connections", h, n)
	}
}

func TestEndlessBody(t *testing.T) {
	s := newRawServer(t, func(s *rawServer, c net.Conn, br *bufio.Reader) {
		s.read(br)
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n")
		for {
			if _, err := io.WriteString(c, strings.Repeat("<p>", 1000)); err != nil {
				return
			}
		}
	})
	c := newTestClient(t, s.url(), nil)
	if o := c.Send(t.Context(), record(1)); o.Class != Retry || !errors.Is(o.Err, ErrNotAPI) || o.Breaker != breaker.Fail {
		t.Errorf("%+v", o)
	}
}

// drip sends a header byte by byte and never ends.
func drip(s *rawServer, c net.Conn, br *bufio.Reader) {
	s.read(br)
	io.WriteString(c, "HTTP/1.1 201 Created\r\n")
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		if _, err := io.WriteString(c, "X-A: b\r\n"); err != nil {
			return
		}
	}
}

func TestTimeouts(t *testing.T) {
	for _, how := range []string{"request timeout", "attempt timeout", "context deadline", "cancel"} {
		t.Run(how, func(t *testing.T) {
			s := newRawServer(t, drip)
			short := 100 * time.Millisecond
			c := newTestClient(t, s.url(), func(cfg *Config) {
				if how == "request timeout" {
					cfg.RequestTimeout = short
				}
			})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			r := record(1)
			want, verdict := ErrTimeout, breaker.Fail
			switch how {
			case "attempt timeout":
				r.Timeout = short
			case "context deadline":
				ctx, cancel = context.WithTimeout(ctx, short)
				defer cancel()
			case "cancel":
				time.AfterFunc(short, cancel)
				want, verdict = ErrCancelled, breaker.Neutral
			}
			o := c.Send(ctx, r)
			if o.Class != Retry || !errors.Is(o.Err, want) || o.Breaker != verdict || !o.Wrote || o.Status != 0 {
				t.Errorf("%+v", o)
			}
			if h := s.hits.Load(); h != 1 {
				t.Errorf("%d hits", h)
			}
		})
	}
}

// An answer that stops right before its end is late, and not malformed, which
// net/http's reader takes it for.
func TestTimeoutBeforeTheLastLine(t *testing.T) {
	s := newRawServer(t, func(s *rawServer, c net.Conn, br *bufio.Reader) {
		s.read(br)
		io.WriteString(c, "HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n")
		io.Copy(io.Discard, br)
	})
	short := func(cfg *Config) { cfg.RequestTimeout = 100 * time.Millisecond }
	for name, send := range map[string]func(context.Context, Request) Outcome{
		"client":    newTestClient(t, s.url(), short).Send,
		"transport": newTestTransport(t, s.url(), TransportConfig{}, short).Send,
	} {
		o := send(t.Context(), record(1))
		if o.Class != Retry || !errors.Is(o.Err, ErrTimeout) || errors.Is(o.Err, ErrAnswer) || strings.Contains(o.Problem, "trailer") {
			t.Errorf("%s: %+v", name, o)
		}
	}
}

// A server that refuses before it has read the record is heard: a reset that
// overtakes its answer is the rare exception, and each try is one try.
func TestEarlyRefusalOfALargeRecord(t *testing.T) {
	const answer = "HTTP/1.1 %d No\r\nContent-Type: application/problem+json\r\nContent-Length: 19\r\n\r\n{\"title\":\"too big\"}"
	for _, tc := range []struct {
		status int
		class  Class
		mute   bool // the server neither reads on nor hangs up
		tries  int
	}{
		{413, Rejected, false, 200}, {401, AuthFailed, false, 40}, {429, Retry, false, 40}, {413, Rejected, true, 10},
	} {
		t.Run(fmt.Sprintf("%d mute %v", tc.status, tc.mute), func(t *testing.T) {
			end := make(chan struct{})
			s := newRawServer(t, func(s *rawServer, c net.Conn, br *bufio.Reader) {
				if _, err := br.Peek(1); err != nil {
					return
				}
				s.hits.Add(1)
				fmt.Fprintf(c, answer, tc.status)
				if tc.mute {
					<-end
				}
			})
			defer close(end)
			c := newTestClient(t, s.url(), nil)
			r := record(1)
			r.Body = []byte(`"` + strings.Repeat("x", 8<<20) + `"`) // more than the socket buffers take
			resets := 0
			for i := range tc.tries {
				o := c.Send(t.Context(), r)
				if o.Status == 0 && o.Class == Retry && o.Wrote && !errors.Is(o.Err, ErrTimeout) {
					resets++
				} else if o.Class != tc.class || o.Status != tc.status || o.Problem != "too big" || !o.Wrote {
					t.Fatalf("send %d: %+v", i, o)
				}
			}
			if h := s.hits.Load(); h != int64(tc.tries) || resets*20 > tc.tries {
				t.Errorf("%d hits and %d resets in %d tries", h, resets, tc.tries)
			}
		})
	}
}

func TestLargeRecordReusesItsConnection(t *testing.T) {
	s := newRawServer(t, always(created))
	c := newTestClient(t, s.url(), nil)
	r := record(1)
	r.Body = []byte(`"` + strings.Repeat("x", 1<<20) + `"`)
	for i := range 5 {
		if o := c.Send(t.Context(), r); o.Class != Acked {
			t.Fatalf("send %d: %+v", i, o)
		}
	}
	if h, n := s.hits.Load(), s.conns.Load(); h != 5 || n != 1 {
		t.Errorf("%d hits on %d connections", h, n)
	}
}

package api

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"trafficup/internal/breaker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rawServer answers with a script: serve is called once per connection.
type rawServer struct {
	net.Listener
	conns, hits atomic.Int64
	wg          sync.WaitGroup
}

func newRawServer(t testing.TB, serve func(s *rawServer, c net.Conn, br *bufio.Reader)) *rawServer {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &rawServer{Listener: ln}
	s.wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			s.conns.Add(1)
			s.wg.Go(func() {
				defer c.Close()
				serve(s, c, bufio.NewReader(c))
			})
		}
	})
	t.Cleanup(func() { ln.Close(); s.wg.Wait() })
	return s
}

// read takes one whole request off the connection and counts it.
func (s *rawServer) read(br *bufio.Reader) (*http.Request, string, error) {
	req, err := http.ReadRequest(br)
	if err != nil {
		return nil, "", err
	}
	body, err := io.ReadAll(req.Body)
	if err == nil {
		s.hits.Add(1)
	}
	return req, string(body), err
}

// always answers every request with the same bytes.
func always(answer string) func(*rawServer, net.Conn, *bufio.Reader) {
	return func(s *rawServer, c net.Conn, br *bufio.Reader) {
		for {
			if _, _, err := s.read(br); err != nil {
				return
			}
			if _, err := io.WriteString(c, answer); err != nil {
				return
			}
		}
	}
}

const created = "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 12\r\n\r\n{\"id\":\"r-1\"}"

func newTestClient(t testing.TB, url string, edit func(*Config)) *Client {
	cfg := Config{URL: url, ConnectTimeout: 20 * time.Second, RequestTimeout: 20 * time.Second}
	if edit != nil {
		edit(&cfg)
	}
	c, err := NewClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func (s *rawServer) url() string { return "http://" + s.Addr().String() + "/v1/logs" }

func record(n int) Request {
	return Request{Key: fmt.Sprintf("key-%d", n), Body: []byte(`{"house_number":"WXYZ-0000482"}`), RunID: "run1", Attempt: 1}
}

func TestRequestOnTheWire(t *testing.T) {
	type seen struct {
		req  *http.Request
		body string
	}
	got := make(chan seen, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got <- seen{r, string(b)}
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"id":"r","echo":"sesame"}`)
	}))
	defer srv.Close()
	c := newTestClient(t, srv.URL+"/v1/logs?a=b", func(cfg *Config) {
		cfg.KeyForm, cfg.UserAgent = "quoted", "trafficup/test"
		cfg.Headers = map[string]string{"X-Station-Group": "501", "Authorization": "Basic x"}
	})
	r := record(1)
	r.Key, r.Token = `a"b\c`, "sesame"
	if o := c.Send(t.Context(), r); o.Class != Acked || o.Receipt != "r" {
		t.Fatalf("%+v", o)
	}
	s := <-got
	want := map[string]string{
		"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "trafficup/test", "X-Station-Group": "501",
		"Idempotency-Key": `"a\"b\\c"`, "Authorization": "Bearer sesame", "X-Trafficup-Run": "run1", "X-Trafficup-Attempt": "1", "Accept-Encoding": "identity",
	}
	for k, v := range want {
		if got := strings.Join(s.req.Header.Values(k), "|"); got != v {
			t.Errorf("%s: %q, want %q", k, got, v)
		}
	}
	if s.body != string(r.Body) || s.req.RequestURI != "/v1/logs?a=b" || s.req.Method != "POST" || s.req.Host != strings.TrimPrefix(srv.URL, "http://") {
		t.Errorf("%s %s, host %s, body %q", s.req.Method, s.req.RequestURI, s.req.Host, s.body)
	}
}

func TestTLS(t *testing.T) {
	var hits atomic.Int64
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hits.Add(1)
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"id":"r"}`)
	}))
	srv.Config.ErrorLog = nil
	defer srv.Close()
	var dials atomic.Int64
	pool := x509.NewCertPool()
	pool.AddCert(srv.Certificate())
	good := newTestClient(t, srv.URL, func(cfg *Config) {
		cfg.TLS = &tls.Config{RootCAs: pool}
		cfg.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			dials.Add(1)
			return (&net.Dialer{}).DialContext(ctx, network, addr)
		}
	})
	for i := range 20 {
		if o := good.Send(t.Context(), record(i)); o.Class != Acked {
			t.Fatalf("%+v", o)
		}
	}
	if hits.Load() != 20 || dials.Load() != 1 {
		t.Errorf("%d hits on %d connections", hits.Load(), dials.Load())
	}
	good.Close()
	bad := newTestClient(t, srv.URL, nil)
	if o := bad.Send(t.Context(), record(1)); o.Class != ConfigFault || o.Wrote || o.Breaker != breaker.Neutral {
		t.Errorf("self-signed: %+v", o)
	}
	plain := newTestClient(t, "http"+strings.TrimPrefix(srv.URL, "https"), nil)
	if o := plain.Send(t.Context(), record(1)); o.Class != ConfigFault {
		t.Errorf("plain HTTP to a TLS port: %+v", o)
	}
	if hits.Load() != 20 {
		t.Errorf("%d hits after refused connections", hits.Load())
	}
}

func TestNothingListens(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	c := newTestClient(t, "http://"+ln.Addr().String(), nil)
	if o := c.Send(t.Context(), record(1)); o.Class != Retry || o.Wrote || o.Breaker != breaker.Fail {
		t.Errorf("%+v", o)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if o := c.Send(ctx, record(1)); !errors.Is(o.Err, ErrCancelled) || o.Wrote || o.Breaker != breaker.Neutral {
		t.Errorf("cancelled before: %+v", o)
	}
	c.Close()
	if o := c.Send(t.Context(), record(1)); !errors.Is(o.Err, ErrClosed) {
		t.Errorf("closed: %+v", o)
	}
}

func TestValuesThatBreakHeaders(t *testing.T) {
	s := newRawServer(t, always(created))
	c := newTestClient(t, s.url(), nil)
	for _, v := range []string{"a\r\nX: y", "a\n", "a\x00", "é", " a"} {
		r := record(1)
		r.Key = v
		if o := c.Send(t.Context(), r); !errors.Is(o.Err, ErrKey) || o.Wrote || o.Class != Rejected {
			t.Errorf("key %q: %+v", v, o)
		}
		r = record(1)
		r.Token = v
		if o := c.Send(t.Context(), r); o.Class != ConfigFault || o.Wrote || strings.Contains(o.Problem, "X: y") {
			t.Errorf("token %q: %+v", v, o)
		}
	}
	if s.conns.Load() != 0 {
		t.Error("connected for a request that cannot be sent")
	}
	for _, cfg := range []Config{
		{URL: "ftp://h/"}, {URL: "http:///x"}, {URL: "http://u:p@h/"}, {URL: "http://h/?a b"}, {URL: "http://h/", KeyForm: "odd"},
		{URL: "http://h/", UserAgent: "a\nb"}, {URL: "http://h/", Headers: map[string]string{"content-length": "1"}},
		{URL: "http://h/", Headers: map[string]string{"A b": "1"}}, {URL: "http://h/", Headers: map[string]string{"A": "1\r\nB: 2"}},
		{URL: "http://h/", Headers: map[string]string{"A": "1", "a": "2"}},
	} {
		if _, err := NewClient(cfg); err == nil {
			t.Errorf("accepted: %+v", cfg)
		}
	}
}

func TestConcurrentSends(t *testing.T) {
	s := newRawServer(t, always(created))
	c := newTestClient(t, s.url(), func(cfg *Config) { cfg.MaxIdle = 8 })
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 200 {
				if o := c.Send(t.Context(), record(w*1000+i)); o.Class != Acked {
					t.Errorf("%+v", o)
					return
				}
			}
		})
	}
	wg.Wait()
	if h, n := s.hits.Load(), s.conns.Load(); h != 1600 || n > 8 {
		t.Errorf("%d hits on %d connections", h, n)
	}
}

func BenchmarkSend(b *testing.B) {
	s := newRawServer(b, always(created))
	c := newTestClient(b, s.url(), nil)
	r := record(1)
	b.ReportAllocs()
	for b.Loop() {
		if o := c.Send(context.Background(), r); o.Class != Acked {
			b.Fatalf("%+v", o)
		}
	}
}

func TestConnectTimeout(t *testing.T) {
	c := newTestClient(t, "https://api.example/", func(cfg *Config) {
		cfg.ConnectTimeout = 20 * time.Millisecond
		cfg.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
	})
	if o := c.Send(t.Context(), record(1)); o.Class != Retry || !errors.Is(o.Err, ErrTimeout) || o.Wrote || o.Breaker != breaker.Fail {
		t.Errorf("%+v", o)
	}
}

// The client works over pipes in a bubble, and a silent server costs exactly
// the timeout.
func TestPipeInBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := 2
		c := newTestClient(t, "http://api.example/", func(cfg *Config) {
			cfg.RequestTimeout = 10 * time.Second
			cfg.Dial = func(context.Context, string, string) (net.Conn, error) {
				near, far := net.Pipe()
				go func() {
					defer far.Close()
					br := bufio.NewReader(far)
					for {
						req, err := http.ReadRequest(br)
						if err != nil {
							return
						}
						io.Copy(io.Discard, req.Body)
						if answers--; answers >= 0 {
							io.WriteString(far, created)
						}
					}
				}()
				return near, nil
			}
		})
		for i := range 2 {
			if o := c.Send(t.Context(), record(i)); o.Class != Acked || o.Duration != 0 {
				t.Errorf("%+v", o)
			}
		}
		if o := c.Send(t.Context(), record(3)); !errors.Is(o.Err, ErrTimeout) || o.Duration != 10*time.Second || !o.Wrote {
			t.Errorf("%+v", o)
		}
		c.Close()
	})
}

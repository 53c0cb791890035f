package api

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// pipes dials into memory; every connection answers created, n counts them.
func pipes(n *atomic.Int64) dialFunc {
	return func(context.Context, string, string) (net.Conn, error) {
		n.Add(1)
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
				io.WriteString(far, created)
			}
		}()
		return near, nil
	}
}

func TestOldConnectionsAreLeft(t *testing.T) {
	for name, tc := range map[string]struct {
		edit         func(*Config)
		pause, whole time.Duration
		least, most  int64
	}{
		"used often enough":     {nil, 49 * time.Second, 4 * time.Minute, 1, 1},
		"rested too long":       {nil, 50 * time.Second, 4 * time.Minute, 5, 5},
		"old":                   {nil, time.Second, 19 * time.Minute, 4, 5}, // 19 min / (5 min ± 10 %)
		"idle time set":         {func(c *Config) { c.MaxIdleTime = time.Second }, time.Second, 9 * time.Second, 10, 10},
		"idle time set longer":  {func(c *Config) { c.MaxIdleTime = time.Hour }, 2 * time.Minute, 4 * time.Minute, 1, 1},
		"age set":               {func(c *Config) { c.MaxAge = 9 * time.Second }, 10 * time.Second, 90 * time.Second, 10, 10},
		"age set, not reached":  {func(c *Config) { c.MaxAge = 11 * time.Second }, 9 * time.Second, 9 * time.Second, 1, 1},
		"as old as can be used": {func(c *Config) { c.MaxAge = 1 }, 1, 9, 10, 10},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n atomic.Int64
				c := newTestClient(t, "http://api.example/", func(cfg *Config) {
					cfg.Dial = pipes(&n)
					if tc.edit != nil {
						tc.edit(cfg)
					}
				})
				for start := time.Now(); time.Since(start) <= tc.whole; time.Sleep(tc.pause) {
					if o := c.Send(t.Context(), record(1)); o.Class != Acked || o.Link != nil {
						t.Fatalf("%+v", o)
					}
				}
				if n.Load() < tc.least || n.Load() > tc.most {
					t.Errorf("%d connections, want %d to %d", n.Load(), tc.least, tc.most)
				}
				c.Close()
			})
		})
	}
}

func TestJitteredIsWithinATenth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(1, int64(1000*time.Hour)).Draw(t, "d"))
		if j := jittered(d); j < d-d/10 || j > d+d/10 {
			t.Fatalf("%v became %v", d, j)
		}
	})
}

// Renew ends what is idle at once, and what is in use after its answer.
func TestRenew(t *testing.T) {
	release := make(chan struct{})
	s := newRawServer(t, func(s *rawServer, c net.Conn, br *bufio.Reader) {
		for {
			req, _, err := s.read(br)
			if err != nil {
				return
			}
			if req.Header.Get("Idempotency-Key") == "key-1" {
				<-release
			}
			io.WriteString(c, created)
		}
	})
	c := newTestClient(t, s.url(), nil)
	c.Warm(t.Context(), 2)
	var wg sync.WaitGroup
	wg.Go(func() {
		if o := c.Send(t.Context(), record(1)); o.Class != Acked {
			t.Errorf("in use: %+v", o)
		}
	})
	for s.hits.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	c.Renew()
	close(release)
	wg.Wait()
	if n := idleNow(c); n != 0 {
		t.Errorf("%d connections left", n)
	}
	for i := range 3 {
		if o := c.Send(t.Context(), record(2+i)); o.Class != Acked {
			t.Fatalf("%+v", o)
		}
	}
	if n := s.conns.Load(); n != 3 {
		t.Errorf("%d connections, want 2 before and 1 after", n)
	}
}

func idleNow(c *Client) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.idle)
}

// One reused connection that fails takes those with it that rested beside it;
// the next attempt dials.
func TestFailureOnAReusedConnection(t *testing.T) {
	for name, end := range map[string]func(c net.Conn, br *bufio.Reader){
		"closed": func(c net.Conn, br *bufio.Reader) {},
		"reset":  func(c net.Conn, br *bufio.Reader) { c.(*net.TCPConn).SetLinger(0) },
		"silent": func(c net.Conn, br *bufio.Reader) { br.ReadByte() },
		"cut":    func(c net.Conn, br *bufio.Reader) { io.WriteString(c, created[:len(created)-1]) },
	} {
		t.Run(name, func(t *testing.T) {
			var old atomic.Bool // until the failure, connections are of the old kind
			old.Store(true)
			s := newRawServer(t, func(s *rawServer, c net.Conn, br *bufio.Reader) {
				isOld := old.Load()
				for {
					if _, _, err := s.read(br); err != nil {
						return
					}
					if isOld {
						end(c, br)
						return
					}
					io.WriteString(c, created)
				}
			})
			c := newTestClient(t, s.url(), nil)
			c.Warm(t.Context(), 4)
			for s.conns.Load() < 4 {
				time.Sleep(time.Millisecond)
			}
			r := record(1)
			if name == "silent" {
				r.Timeout = 50 * time.Millisecond
			}
			if o := c.Send(t.Context(), r); o.Class != Retry || !o.Wrote {
				t.Fatalf("%+v", o)
			}
			old.Store(false)
			for i := range 3 {
				if o := c.Send(t.Context(), record(2+i)); o.Class != Acked {
					t.Fatalf("%+v", o)
				}
			}
			if h, n := s.hits.Load(), s.conns.Load(); h != 4 || n != 5 {
				t.Errorf("%d hits on %d connections, want 4 on 5", h, n)
			}
		})
	}
}

func TestWarm(t *testing.T) {
	for name, version := range map[string]uint16{"plain": 0, "tls 1.2": tls.VersionTLS12, "tls 1.3": tls.VersionTLS13} {
		t.Run(name, func(t *testing.T) {
			var together sync.WaitGroup
			together.Add(4)
			srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				together.Done()
				together.Wait()
				w.WriteHeader(http.StatusNoContent)
			}))
			var conns atomic.Int64
			srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
				if s == http.StateNew {
					conns.Add(1)
				}
			}
			if version == 0 {
				srv.Start()
			} else {
				srv.TLS = &tls.Config{MaxVersion: version, ClientAuth: tls.RequestClientCert} // tickets come after the handshake
				srv.StartTLS()
			}
			defer srv.Close()
			c := newTestClient(t, srv.URL, func(cfg *Config) { cfg.TLS = trustingServer(srv); cfg.MaxIdle = 4 })
			c.Warm(t.Context(), 3)
			c.Warm(t.Context(), 100)
			if n := idleNow(c); n != 4 {
				t.Fatalf("%d idle connections, want 4", n)
			}
			for _, cn := range c.idle {
				for version == tls.VersionTLS13 && cn.raw.silent() {
					time.Sleep(time.Millisecond) // its tickets are on their way
				}
			}
			var wg sync.WaitGroup
			for i := range 4 {
				wg.Go(func() {
					if o := c.Send(t.Context(), record(i)); o.Class != Acked {
						t.Errorf("%+v", o)
					}
				})
			}
			wg.Wait()
			if n := conns.Load(); n != 4 {
				t.Errorf("%d connections for 4 requests at once", n)
			}
		})
	}
}

func TestWarmWithoutSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dials atomic.Int64
		c := newTestClient(t, "https://api.example/", func(cfg *Config) {
			cfg.ConnectTimeout = 2 * time.Second
			cfg.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
				if dials.Add(1)%2 == 0 {
					return nil, errors.New("refused")
				}
				<-ctx.Done()
				return nil, ctx.Err()
			}
		})
		start := time.Now()
		c.Warm(t.Context(), 8)
		if d := time.Since(start); d != 2*time.Second || dials.Load() != 8 || idleNow(c) != 0 {
			t.Errorf("%v, %d dials, %d idle", d, dials.Load(), idleNow(c))
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		start = time.Now()
		c.Warm(ctx, 8)
		c.Warm(ctx, -1)
		if d := time.Since(start); d != time.Second {
			t.Errorf("cancelled: %v", d)
		}
	})
}

// What Warm opens after Close is closed.
func TestWarmAfterClose(t *testing.T) {
	s := newRawServer(t, always(created))
	c := newTestClient(t, s.url(), nil)
	c.Close()
	c.Warm(t.Context(), 4)
	if n := idleNow(c); n != 0 {
		t.Errorf("%d idle connections", n)
	}
}

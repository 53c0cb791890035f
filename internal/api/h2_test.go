package api

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"trafficup/internal/breaker"
)

// h2Server is a server of net/http that counts its connections.
func h2Server(t testing.TB, speaksHTTP2 bool, h http.HandlerFunc) (srv *httptest.Server, conns *atomic.Int64) {
	t.Helper()
	conns = new(atomic.Int64)
	srv = httptest.NewUnstartedServer(h)
	srv.EnableHTTP2 = speaksHTTP2
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			conns.Add(1)
		}
	}
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	t.Cleanup(srv.Close)
	return srv, conns
}

func rootsOf(certs ...*x509.Certificate) *tls.Config {
	pool := x509.NewCertPool()
	for _, c := range certs {
		pool.AddCert(c)
	}
	return &tls.Config{RootCAs: pool}
}

func newTestTransport(t testing.TB, url string, tc TransportConfig, edit func(*Config)) *Transport {
	t.Helper()
	cfg := Config{URL: url, ConnectTimeout: 20 * time.Second, RequestTimeout: 20 * time.Second}
	if edit != nil {
		edit(&cfg)
	}
	tr, err := NewTransport(cfg, tc)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tr.Close)
	return tr
}

func trust(srv *httptest.Server) func(*Config) {
	return func(cfg *Config) { cfg.TLS = rootsOf(srv.Certificate()) }
}

func ack(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	io.WriteString(w, `{"id":"r-1"}`)
}

func TestTransportSendsWhatAClientSends(t *testing.T) {
	type seen struct {
		header http.Header
		body   string
		length int64
		major  int
		uri    string
		host   string
	}
	got := make(chan seen, 1)
	srv, _ := h2Server(t, true, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got <- seen{r.Header, string(b), r.ContentLength, r.ProtoMajor, r.RequestURI, r.Host}
		w.Header().Set("RateLimit", `"default";r=50;t=30`)
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"id":"sesame-1"}`)
	})
	edit := func(cfg *Config) {
		cfg.TLS = rootsOf(srv.Certificate())
		cfg.KeyForm, cfg.Headers = "quoted", map[string]string{"X-Station": "WXYZ", "authorization": "Basic x"}
	}
	for _, size := range []int{0, 2, 1 << 20} {
		r := record(1)
		r.Body = []byte(strings.Repeat("x", size))
		r.Token, r.Attempt = "sesame", 3
		c := newTestClient(t, srv.URL+"/v1/logs?a=b", edit)
		if o := c.Send(t.Context(), r); o.Class != Acked {
			t.Fatalf("%+v", o)
		}
		want := <-got
		for _, h2 := range []bool{false, true} {
			tr := newTestTransport(t, srv.URL+"/v1/logs?a=b", TransportConfig{HTTP2: h2}, edit)
			o := tr.Send(t.Context(), r)
			if o.Class != Acked || o.Breaker != breaker.OK || o.Receipt != "***-1" || !o.Wrote || o.Header == nil || o.Duration <= 0 {
				t.Errorf("%+v", o)
			}
			have := <-got
			want.major = 1
			if h2 {
				want.major = 2
			}
			if fmt.Sprint(have) != fmt.Sprint(want) {
				t.Errorf("size %d, http2 %v:\n%v\n%v", size, h2, have, want)
			}
		}
	}
}

func TestTransportJudges(t *testing.T) {
	long := strings.Repeat("x", 200_000)
	for _, tc := range []struct {
		name    string
		serve   http.HandlerFunc
		class   Class
		verdict breaker.Verdict
		status  int
	}{
		{"ack", ack, Acked, breaker.OK, 201},
		{"no content", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, Acked, breaker.OK, 204},
		{"redirect", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) }, ConfigFault, breaker.Neutral, 302},
		{"redirect that keeps the body", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusPermanentRedirect)
		}, ConfigFault, breaker.Neutral, 308},
		{"throttled", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Retry-After", "3"); w.WriteHeader(429) }, Retry, breaker.Fail, 429},
		{"misdirected", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(421) }, Retry, breaker.Fail, 421},
		{"portal", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>") }, Retry, breaker.Fail, 200},
		{"zipped unasked", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			io.WriteString(z, `{"id":"r"}`)
			z.Close()
		}, Acked, breaker.OK, 200},
		{"long refusal", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(422); io.WriteString(w, long) }, Rejected, breaker.OK, 422},
		{"cut in the body", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			w.WriteHeader(201)
			io.WriteString(w, "{")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, Retry, breaker.Fail, 0},
		{"huge header", func(w http.ResponseWriter, r *http.Request) { w.Header().Set("X-Long", long); ack(w, r) }, Retry, breaker.Fail, 0},
		{"no answer", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, Retry, breaker.Fail, 0},
	} {
		for _, h2 := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/http2=%v", tc.name, h2), func(t *testing.T) {
				var hits atomic.Int64
				srv, _ := h2Server(t, h2, func(w http.ResponseWriter, r *http.Request) {
					io.Copy(io.Discard, r.Body)
					hits.Add(1)
					tc.serve(w, r)
				})
				tr := newTestTransport(t, srv.URL, TransportConfig{HTTP2: h2}, trust(srv))
				for i := range 3 {
					o := tr.Send(t.Context(), record(i))
					if o.Class != tc.class || o.Breaker != tc.verdict || o.Status != tc.status || !o.Wrote {
						t.Fatalf("send %d: %+v", i, o)
					}
				}
				if n := hits.Load(); n != 3 {
					t.Errorf("%d hits for 3 sends", n)
				}
			})
		}
	}
}

// net/http's own pool would send again what a server has read on a connection
// that was used before, because of the Idempotency-Key.
func TestTransportClosedAfterReadingIsOneHit(t *testing.T) {
	s := newRawServer(t, func(s *rawServer, c net.Conn, br *bufio.Reader) {
		for i := range 2 {
			if _, _, err := s.read(br); err != nil {
				return
			}
			if i == 0 {
				io.WriteString(c, created)
			}
		}
	})
	tr := newTestTransport(t, s.url(), TransportConfig{}, nil)
	for i := range 10 {
		o := tr.Send(t.Context(), record(i))
		if want := []Class{Acked, Retry}[i%2]; o.Class != want || !o.Wrote {
			t.Fatalf("send %d: %+v", i, o)
		}
	}
	if h, n := s.hits.Load(), s.conns.Load(); h != 10 || n != 5 {
		t.Errorf("%d hits on %d connections", h, n)
	}
}

func TestTransportEarlyRefusalOfALargeRecord(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		srv, _ := h2Server(t, h2, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(413) })
		tr := newTestTransport(t, srv.URL, TransportConfig{HTTP2: h2}, trust(srv))
		r := record(1)
		r.Body = bytes.Repeat([]byte("x"), 8<<20)
		refused := 0
		for range 20 {
			switch o := tr.Send(t.Context(), r); {
			case o.Class == Rejected && o.Status == 413:
				refused++
			case o.Class != Retry:
				t.Fatalf("%+v", o)
			}
		}
		if refused < 19 {
			t.Errorf("http2 %v: %d of 20 refusals seen", h2, refused)
		}
	}
}

func TestServerWithoutHTTP2IsAFaultOfTheConfiguration(t *testing.T) {
	srv, _ := h2Server(t, false, ack)
	raw := newRawServer(t, always(created))
	for _, tr := range []*Transport{
		newTestTransport(t, srv.URL, TransportConfig{HTTP2: true}, trust(srv)),
		newTestTransport(t, raw.url(), TransportConfig{HTTP2: true}, nil),
	} {
		o := tr.Send(t.Context(), record(1))
		if o.Class != ConfigFault || o.Breaker != breaker.Neutral || !errors.Is(o.Err, ErrNotHTTP2) || !strings.Contains(o.Problem, "http: 2") {
			t.Errorf("%+v", o)
		}
	}
}

func TestTransportRefusesAForeignCertificate(t *testing.T) {
	srv, _ := h2Server(t, true, ack)
	tr := newTestTransport(t, srv.URL, TransportConfig{HTTP2: true}, nil)
	if o := tr.Send(t.Context(), record(1)); o.Class != ConfigFault || o.Wrote {
		t.Errorf("%+v", o)
	}
}

// A server that says goodbye after every tenth stream costs no record and is no
// failure of the path.
func TestGracefulGoodbyes(t *testing.T) {
	const records, workers = 200, 8
	var streams atomic.Int64
	var mu sync.Mutex
	hits := map[string]int{}
	srv, conns := h2Server(t, true, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		hits[r.Header.Get("Idempotency-Key")]++
		mu.Unlock()
		if streams.Add(1)%10 == 0 {
			w.Header().Set("Connection", "close") // a GOAWAY in HTTP/2
		}
		ack(w, r)
	})
	tr := newTestTransport(t, srv.URL, TransportConfig{HTTP2: true}, trust(srv))
	var next, again atomic.Int64
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for n := next.Add(1); n <= records; n = next.Add(1) {
				for {
					o := tr.Send(t.Context(), record(int(n)))
					if o.Class == Acked {
						break
					}
					if again.Add(1); o.Class != Retry || o.Breaker != breaker.Neutral || o.Wrote {
						t.Errorf("record %d: %+v", n, o)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	if len(hits) != records {
		t.Errorf("%d of %d keys arrived", len(hits), records)
	}
	for key, n := range hits {
		if n != 1 {
			t.Errorf("%s arrived %d times", key, n)
		}
	}
	t.Logf("%d sent again, %d connections", again.Load(), conns.Load())
}

func BenchmarkTransportSend(b *testing.B) {
	for _, h2 := range []bool{false, true} {
		b.Run(fmt.Sprintf("http2=%v", h2), func(b *testing.B) {
			srv, _ := h2Server(b, h2, ack)
			tr := newTestTransport(b, srv.URL, TransportConfig{HTTP2: h2}, trust(srv))
			b.SetParallelism(16)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if o := tr.Send(b.Context(), record(1)); o.Class != Acked {
						b.Errorf("%+v", o)
					}
				}
			})
		})
	}
}

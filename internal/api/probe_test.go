package api

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

type prober interface {
	Probe(ctx context.Context, l Login) Probed
	Close()
}

// A probe has everything of a run's requests but what makes one for a record.
func TestProbe(t *testing.T) {
	heads := make(chan *http.Request, 1)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		heads <- r
		http.Redirect(w, r, "/elsewhere", http.StatusFound)
	}))
	srv.EnableHTTP2 = true
	srv.StartTLS()
	defer srv.Close()
	plain := httptest.NewServer(srv.Config.Handler)
	defer plain.Close()
	cfg := Config{
		URL: srv.URL + "/v1/logs?a=1", TLS: trustingServer(srv), UserAgent: "trafficup/1",
		Headers: map[string]string{"Authorization": "Basic b3VycyE6", "X-Group": "501"},
	}
	inClear := cfg
	inClear.URL = plain.URL + "/v1/logs?a=1"
	for name, c := range map[string]struct {
		cfg    Config
		via    *TransportConfig
		proto  string
		secure bool
	}{
		"client":     {cfg, nil, "HTTP/1.1", true},
		"in clear":   {inClear, nil, "HTTP/1.1", false},
		"http/1":     {cfg, new(TransportConfig), "HTTP/1.1", true},
		"http/2":     {cfg, &TransportConfig{HTTP2: true}, "HTTP/2.0", true},
		"own dialer": {dialled(cfg), nil, "HTTP/1.1", true},
	} {
		for login, want := range map[Login]string{{}: "", {Configured: true}: "Basic b3VycyE6", {Token: "t0ken"}: "Bearer t0ken"} {
			cl := newProber(t, c.cfg, c.via)
			p := cl.Probe(t.Context(), login)
			cl.Close()
			if p.Err != nil || p.Status != http.StatusFound || !p.Connected || p.Handshake != c.secure || (p.TLS != nil) != c.secure || p.Took <= 0 || p.Sent.IsZero() {
				t.Fatalf("%s: %+v", name, p)
			}
			if c.secure && len(p.TLS.VerifiedChains) == 0 {
				t.Errorf("%s: no chain was verified", name)
			}
			r := <-heads
			if r.Method != http.MethodHead || r.URL.String() != "/v1/logs?a=1" || r.Proto != c.proto || r.Header.Get("Authorization") != want || r.Header.Get("X-Group") != "501" || r.UserAgent() != "trafficup/1" {
				t.Errorf("%s: %+v", name, r)
			}
			for _, h := range []string{"Idempotency-Key", "X-Trafficup-Attempt", "X-Trafficup-Run", "Content-Type"} {
				if _, has := r.Header[h]; has {
					t.Errorf("%s: has %s", name, h)
				}
			}
		}
	}
	if len(heads) > 0 {
		t.Error("a redirect was followed")
	}
}

func dialled(cfg Config) Config {
	cfg.Dial = new(net.Dialer).DialContext
	return cfg
}

func newProber(t *testing.T, cfg Config, via *TransportConfig) (p prober) {
	t.Helper()
	var err error
	if via == nil {
		p, err = NewClient(cfg)
	} else {
		p, err = NewTransport(cfg, *via)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A probe comes to its end where nobody answers, and says how far it came.
func TestProbeIsBounded(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts, by the kernel, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for name, c := range map[string]struct {
		url       string
		handshake bool
	}{"no answer": {"http://" + silent.Addr().String(), false}, "no handshake": {"https://" + silent.Addr().String(), true}} {
		cl := newProber(t, Config{URL: c.url, ConnectTimeout: 30 * time.Millisecond, RequestTimeout: 30 * time.Millisecond}, nil)
		p := cl.Probe(t.Context(), Login{})
		if p.Err == nil || !p.Connected || p.Handshake != c.handshake || p.Status != 0 || p.Sent.IsZero() != c.handshake {
			t.Errorf("%s: %+v", name, p)
		}
		cl.Close()
	}
	gone, stop := context.WithCancel(t.Context())
	stop()
	cl := newProber(t, Config{URL: "http://" + silent.Addr().String()}, nil)
	if p := cl.Probe(gone, Login{}); p.Err == nil {
		t.Errorf("%+v", p)
	}
	if p := cl.Probe(t.Context(), Login{Token: "a\nb"}); p.Err == nil || !p.Sent.IsZero() {
		t.Errorf("%+v", p)
	}
	cl.Close()
}

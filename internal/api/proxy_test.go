package api

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"trafficup/internal/breaker"
)

func TestProxyFor(t *testing.T) {
	both := map[string]string{"HTTPS_PROXY": "http://secure:3128", "HTTP_PROXY": "plain:3128", "NO_PROXY": "10.0.0.0/8,api.test,.inner.test,*.wild.test,other.test:8443,192.0.2.7"}
	lower := map[string]string{"https_proxy": "http://secure:3128", "http_proxy": "plain:3128", "no_proxy": "api.test"}
	for _, tc := range []struct {
		setting, target string
		env             map[string]string
		want            string // "" means none
	}{
		{"", "https://far.test/v1", both, "http://secure:3128"},
		{"env", "https://far.test/v1", both, "http://secure:3128"},
		{"env", "http://far.test/v1", both, "http://plain:3128"},
		{"env", "https://far.test/v1", lower, "http://secure:3128"},
		{"env", "http://far.test/v1", lower, "http://plain:3128"},
		{"env", "https://api.test/v1", lower, ""},
		{"env", "https://far.test/v1", map[string]string{"HTTPS_PROXY": "upper:1", "https_proxy": "lower:1"}, "http://upper:1"},
		{"env", "https://far.test/v1", map[string]string{"HTTP_PROXY": "plain:1"}, ""},
		{"env", "https://far.test/v1", map[string]string{"ALL_PROXY": "all:1"}, ""},
		{"env", "https://far.test/v1", nil, ""},
		{"none", "https://far.test/v1", both, ""},
		{"env", "https://10.1.2.3/v1", both, ""},
		{"env", "https://11.1.2.3/v1", both, "http://secure:3128"},
		{"env", "https://api.test/v1", both, ""},
		{"env", "https://API.test:8443/v1", both, ""},
		{"env", "https://x.api.test/v1", both, ""},
		{"env", "https://xapi.test/v1", both, "http://secure:3128"},
		{"env", "https://inner.test/v1", both, "http://secure:3128"},
		{"env", "https://a.inner.test/v1", both, ""},
		{"env", "https://a.wild.test/v1", both, ""},
		{"env", "https://other.test/v1", both, "http://secure:3128"},
		{"env", "https://other.test:8443/v1", both, ""},
		{"env", "https://192.0.2.7/v1", both, ""},
		{"env", "https://far.test/v1", map[string]string{"HTTPS_PROXY": "p:1", "NO_PROXY": "*"}, ""},
		{"env", "https://localhost/v1", both, ""},
		{"env", "https://LocalHost:8443/v1", both, ""},
		{"env", "https://127.0.0.1/v1", both, ""},
		{"env", "https://[::1]:8443/v1", both, ""},
		{"http://p:3128", "https://[::1]:8443/v1", nil, ""},
		{"http://p:3128", "http://127.3.4.5/v1", nil, ""},
		{"http://p:3128", "https://api.test/v1", both, "http://p:3128"},
		{"p:3128", "https://far.test/v1", nil, "http://p:3128"},
		{"10.0.0.9:3128", "https://far.test/v1", nil, "http://10.0.0.9:3128"},
		{"https://p", "https://far.test/v1", nil, "https://p"},
		{"socks5://p:1080/", "https://far.test/v1", nil, "socks5://p:1080/"},
		{"http://user:p%40ss@p:3128", "https://far.test/v1", nil, "http://user:p%40ss@p:3128"},
		{"user:pass@p:3128", "https://far.test/v1", nil, "http://user:pass@p:3128"},
	} {
		got, err := ProxyFor(tc.setting, tc.target, func(name string) string { return tc.env[name] })
		text := ""
		if got != nil {
			text = got.String()
		}
		if err != nil || text != tc.want {
			t.Errorf("%q, %s, %v: %q, %v; want %q", tc.setting, tc.target, tc.env, text, err, tc.want)
		}
	}
}

func TestProxyForKeepsSecrets(t *testing.T) {
	for _, setting := range []string{"ftp://u:sesame@p", "http://u:se#same@p:1", "http://u:sesame/@p:1", "http://u:ses%ame@p:1", "http://sesame:sesame:sesame", "http://", "http://p:3128/path?sesame", "http://sesame p:1", "://sesame", "http://:3128", "sesame", "u:sesame@p"} {
		for _, env := range []string{"HTTPS_PROXY", "https_proxy", ""} {
			use := setting
			if env != "" {
				use = "env"
			}
			u, err := ProxyFor(use, "https://far.test/v1", func(name string) string {
				if name == env {
					return setting
				}
				return ""
			})
			if err == nil || u != nil || strings.Contains(err.Error(), "same") || env != "" && !strings.Contains(err.Error(), env) {
				t.Errorf("%s=%s: %v, %v", env, setting, u, err)
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		setting := "http://u:sesame" + rapid.String().Draw(t, "rest")
		if _, err := ProxyFor(setting, "https://far.test/v1", nil); err != nil && strings.Contains(err.Error(), "sesame") {
			t.Errorf("%q: %v", setting, err)
		}
	})
}

// relay is a proxy that connects everything to one address. login, when set, is
// what it wants to hear.
func relay(t *testing.T, to, login string) (*rawServer, *atomic.Int64) {
	asked := new(atomic.Int64)
	return newRawServer(t, func(_ *rawServer, c net.Conn, br *bufio.Reader) { relayOne(c, br, to, login, asked) }), asked
}

func relayOne(c net.Conn, br *bufio.Reader, to, login string, asked *atomic.Int64) {
	req, err := http.ReadRequest(br)
	if err != nil {
		return
	}
	asked.Add(1)
	want := "Basic " + base64.StdEncoding.EncodeToString([]byte(login))
	if login != "" && req.Header.Get("Proxy-Authorization") != want {
		io.WriteString(c, "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
		return
	}
	far, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer far.Close()
	if req.Method == http.MethodConnect {
		io.WriteString(c, "HTTP/1.1 200 Connection established\r\n\r\n")
	} else if !req.URL.IsAbs() || req.Write(far) != nil {
		return
	}
	var wg sync.WaitGroup
	wg.Go(func() { io.Copy(far, br); far.(*net.TCPConn).CloseWrite() })
	io.Copy(c, far)
	c.Close()
	wg.Wait()
}

func proxyURL(t *testing.T, s string) *url.URL {
	t.Helper()
	u, err := ProxyFor(s, "https://far.test", nil)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestThroughAProxy(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		srv, _ := h2Server(t, h2, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Proxy-Authorization") != "" {
				t.Error("the proxy's login came to the API")
			}
			ack(w, r)
		})
		for _, login := range []string{"", "user:p@ss"} {
			s, asked := relay(t, srv.Listener.Addr().String(), login)
			p := proxyURL(t, "http://"+s.Addr().String())
			if login != "" {
				p.User = url.UserPassword("user", "p@ss")
			}
			tr := newTestTransport(t, "https://example.com/v1", TransportConfig{HTTP2: h2, Proxy: p}, trust(srv))
			for i := range 3 {
				if o := tr.Send(t.Context(), record(i)); o.Class != Acked {
					t.Fatalf("http2 %v, login %q: %+v", h2, login, o)
				}
			}
			if n := asked.Load(); n != 1 {
				t.Errorf("%d connections", n)
			}
			tr.Close()
		}
	}
}

func TestPlainThroughAProxy(t *testing.T) {
	api := newRawServer(t, always(created))
	s, asked := relay(t, api.Addr().String(), "user:pass")
	for _, tc := range []struct {
		user   *url.Userinfo
		class  Class
		status int
	}{{url.UserPassword("user", "pass"), Acked, 201}, {nil, ConfigFault, 407}} {
		p := proxyURL(t, s.Addr().String())
		p.User = tc.user
		tr := newTestTransport(t, "http://far.test/v1", TransportConfig{Proxy: p}, nil)
		o := tr.Send(t.Context(), record(1))
		if o.Class != tc.class || o.Status != tc.status || tc.class != Acked && (!errors.Is(o.Err, ErrProxyLogin) || o.Problem != "proxy asks for a login") {
			t.Errorf("%+v", o)
		}
		tr.Close()
	}
	if asked.Load() != 2 {
		t.Errorf("%d requests", asked.Load())
	}
	if _, err := NewTransport(Config{URL: "http://far.test/v1"}, TransportConfig{HTTP2: true, Proxy: proxyURL(t, "p:1")}); err == nil || !strings.Contains(err.Error(), "proxy") {
		t.Errorf("HTTP/2 without TLS through a proxy: %v", err)
	}
}

// What a proxy that reads the answers says by itself is told from what it passes on.
func TestOwnAnswer(t *testing.T) {
	text, js, html := "text/plain", "application/json", "text/html"
	for _, tc := range []struct {
		status       int
		typ, via     string
		proxyStatus  string
		unnamed, own bool
	}{
		{403, text, "", "", false, true}, {403, js, "", "", false, true}, {404, js, "", "", false, true}, {413, text, "", "", false, true},
		{403, text, "", "", true, false}, {403, text, "1.1 relay", "", false, false}, {403, html, "1.1 relay", "", false, true}, {403, html, "", "", true, true},
		{502, text, "", "", false, true}, {504, text, "", "", false, true}, {502, text, "1.1 relay", "", false, false}, {502, text, "", "", true, false},
		{500, text, "", "", false, false}, {503, text, "", "", false, false}, {503, text, "1.1 relay", "relay; error=destination_unavailable", false, true},
		{401, text, "", "", false, false}, {407, text, "", "", false, false}, {409, js, "", "", false, false}, {422, js, "", "", false, false}, {429, text, "", "", false, false},
		{201, js, "", "relay; error=proxy_internal_error", false, false}, {302, html, "", "", false, false},
		{403, js, "1.1 relay", "far; fwd=miss, relay ;error=http_request_denied; details=\"a, b\"", false, true},
		{403, js, "1.1 relay", "relay; error=http_response_incomplete; received-status=403", false, false},
		{502, js, "1.1 relay", "relay; error=http_response_incomplete; received-status=200", false, true},
		{403, js, "1.1 relay", "relay; received-status=403", false, false},
	} {
		h := header("Content-Type", tc.typ)
		if tc.via != "" {
			h.Set("Via", tc.via)
		}
		if tc.proxyStatus != "" {
			h.Set("Proxy-Status", tc.proxyStatus)
		}
		if got := ownAnswer(Answer{Status: tc.status, Header: h}, tc.unnamed); got != tc.own {
			t.Errorf("%+v: %v", tc, got)
		}
	}
}

// The proxy's own TLS is not the API's: another name, another certificate, no
// HTTP/2, and nothing of this side's certificate.
func TestThroughASecureProxy(t *testing.T) {
	srv, _ := h2Server(t, true, ack)
	var asked atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect || r.ProtoMajor != 1 {
			t.Errorf("%s %s", r.Method, r.Proto)
		}
		asked.Add(1)
		far, err := net.Dial("tcp", srv.Listener.Addr().String())
		if err != nil {
			t.Error(err)
			return
		}
		defer far.Close()
		w.WriteHeader(http.StatusOK)
		c, br, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		go func() { io.Copy(far, br) }()
		io.Copy(c, far)
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	tr := newTestTransport(t, "https://example.com/v1", TransportConfig{HTTP2: true, Proxy: proxyURL(t, s.URL)}, func(cfg *Config) {
		cfg.TLS = rootsOf(srv.Certificate(), s.Certificate())
	})
	defer tr.Close()
	if o := tr.Send(t.Context(), record(1)); o.Class != Acked || asked.Load() != 1 {
		t.Errorf("%+v", o)
	}
}

func TestProxyThatDoesNotConnect(t *testing.T) {
	end := make(chan struct{})
	defer close(end)
	for _, tc := range []struct {
		answer  string // "" says nothing
		class   Class
		verdict breaker.Verdict
		is      error
	}{
		{"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n", ConfigFault, breaker.Neutral, ErrProxyLogin},
		{"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n", Retry, breaker.Fail, ErrProxy},
		{"HTTP/1.1 503 \x1b[31mBusy\r\nContent-Length: 0\r\n\r\n", Retry, breaker.Fail, ErrProxy},
		{"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", Retry, breaker.Fail, ErrProxy},
		{"HTTP/1.1 301 Moved\r\nLocation: http://portal/\r\n\r\n", Retry, breaker.Fail, ErrProxy},
		{"HTTP/1.1 200\r\n\r\nnot TLS", Retry, breaker.Fail, nil},
		{"SSH-2.0-OpenSSH\r\n", Retry, breaker.Fail, nil},
		{"", Retry, breaker.Fail, ErrTimeout},
	} {
		t.Run(fmt.Sprintf("%.20q", tc.answer), func(t *testing.T) {
			s := newRawServer(t, func(s *rawServer, c net.Conn, br *bufio.Reader) {
				s.read(br)
				io.WriteString(c, tc.answer)
				if tc.answer == "" {
					<-end
				}
			})
			defer func() {
				if tc.answer == "" {
					end <- struct{}{}
				}
			}()
			p := proxyURL(t, s.Addr().String())
			p.User = url.UserPassword("user", "sesame")
			tr := newTestTransport(t, "https://far.test/v1", TransportConfig{HTTP2: true, Proxy: p}, func(cfg *Config) {
				if tc.answer == "" {
					cfg.ConnectTimeout = 50 * time.Millisecond
				}
			})
			defer tr.Close()
			o := tr.Send(t.Context(), record(1))
			if o.Class != tc.class || o.Breaker != tc.verdict || o.Status != 0 || o.Wrote || tc.is != nil && !errors.Is(o.Err, tc.is) {
				t.Errorf("%+v", o)
			}
			for _, text := range []string{o.Problem, o.Err.Error()} {
				if !strings.Contains(text, "proxy "+s.Addr().String()) || strings.Contains(text, "sesame") || strings.Contains(text, "\x1b") {
					t.Errorf("%q", text)
				}
			}
			if n := s.conns.Load(); n != 1 {
				t.Errorf("%d connections", n)
			}
		})
	}
}

func TestProxyNotThere(t *testing.T) {
	p := proxyURL(t, "http://user:sesame@127.0.0.1:1")
	tr := newTestTransport(t, "https://far.test/v1", TransportConfig{Proxy: p}, nil)
	o := tr.Send(t.Context(), record(1))
	if o.Class != Retry || o.Breaker != breaker.Fail || !strings.Contains(o.Problem, "proxy 127.0.0.1:1") || strings.Contains(o.Problem, "sesame") {
		t.Errorf("%+v", o)
	}
}

func TestThroughSOCKS(t *testing.T) {
	srv, _ := h2Server(t, true, ack)
	s := newRawServer(t, func(_ *rawServer, c net.Conn, br *bufio.Reader) {
		// RFC 1928: methods, none wanted; then CONNECT to a name.
		skip := func(n int) { io.CopyN(io.Discard, br, int64(n)) }
		skip(1)
		n, _ := br.ReadByte()
		skip(int(n))
		c.Write([]byte{5, 0})
		skip(4)
		n, _ = br.ReadByte()
		skip(int(n) + 2)
		far, err := new(net.Dialer).DialContext(context.Background(), "tcp", srv.Listener.Addr().String())
		if err != nil {
			return
		}
		defer far.Close()
		c.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0})
		var wg sync.WaitGroup
		wg.Go(func() { io.Copy(far, br); far.Close() })
		io.Copy(c, far)
		c.Close()
		wg.Wait()
	})
	tr := newTestTransport(t, "https://example.com/v1", TransportConfig{HTTP2: true, Proxy: proxyURL(t, "socks5://"+s.Addr().String())}, trust(srv))
	defer tr.Close()
	if o := tr.Send(t.Context(), record(1)); o.Class != Acked {
		t.Errorf("%+v", o)
	}
}

package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"
)

// faults are how many connections or look-ups fail before all is well again: those
// that are opened ahead, and so many more that the breaker opens.
const faults = 8 + 16

// failing counts down faults.
type failing struct{ left atomic.Int32 }

func (f *failing) now() bool { return f.left.Add(-1) >= 0 }

// faultyListener hands its first connections to spoil instead of the server.
type faultyListener struct {
	net.Listener
	failing failing
	spoil   func(*net.TCPConn)
}

func (l *faultyListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil || !l.failing.now() {
			return c, err
		}
		l.spoil(c.(*net.TCPConn))
	}
}

// reset closes a connection so that the other side hears of it at once.
func reset(c *net.TCPConn) {
	_ = c.SetLinger(0)
	_ = c.Close()
}

// nameServer answers every question for an address with 127.0.0.1, after a number
// of answers with the code rcode and nothing else.
func nameServer(t *testing.T, rcode byte) *net.Resolver {
	t.Helper()
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pc.Close() })
	var f failing
	f.left.Store(2 * faults) // a look-up asks for two kinds of address
	go func() {
		b := make([]byte, 1500)
		for {
			n, from, err := pc.ReadFrom(b)
			if err != nil {
				return
			}
			if answer := nameAnswer(b[:n], f.now(), rcode); answer != nil {
				_, _ = pc.WriteTo(answer, from)
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", pc.LocalAddr().String())
	}}
}

// nameAnswer answers a query (RFC 1035, section 4.1); nil: it is none.
func nameAnswer(query []byte, fail bool, rcode byte) []byte {
	if len(query) < 12 {
		return nil
	}
	end := 12 + bytes.IndexByte(query[12:], 0) + 1 + 4 // behind the name, its type and class
	if end > len(query) {
		return nil
	}
	answer := append([]byte{query[0], query[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, query[12:end]...)
	switch {
	case fail:
		answer[3] |= rcode
	case query[end-3] == 1: // type A
		answer[7] = 1
		answer = append(answer, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 127, 0, 0, 1)
	}
	return answer
}

// Whatever keeps a connection from being made or answered for a while, all records
// are delivered once it is over, each under its key.
func TestFaultsOfTheLinkHeal(t *testing.T) {
	const servfail, nxdomain = 2, 3
	readAll := func(c *net.TCPConn) {
		req, err := http.ReadRequest(bufio.NewReader(c))
		if err == nil {
			_, _ = io.Copy(io.Discard, req.Body)
		}
	}
	for _, c := range []struct {
		name  string
		tls   bool
		spoil func(*net.TCPConn)               // nil: the listener is well
		dial  func(t *testing.T) dialer        // nil: the network's
		host  func(addr net.Addr) (url string) // nil: its address
	}{
		{name: "reset before the body", spoil: reset},
		{name: "reset after the body", spoil: func(c *net.TCPConn) { readAll(c); reset(c) }},
		{name: "closed without an answer", spoil: func(c *net.TCPConn) { readAll(c); c.Close() }},
		{name: "unexpected end of the answer", spoil: func(c *net.TCPConn) {
			readAll(c)
			_, _ = io.WriteString(c, "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"id\":")
			c.Close()
		}},
		{name: "reset in the handshake", tls: true, spoil: func(c *net.TCPConn) {
			_, _ = c.Read(make([]byte, 1)) // of the client's hello
			reset(c)
		}},
		{name: "refused", dial: refusing},
		{name: "no such name", dial: func(t *testing.T) dialer { return (&net.Dialer{Resolver: nameServer(t, nxdomain)}).DialContext }, host: named},
		{name: "name server fails", dial: func(t *testing.T) dialer { return (&net.Dialer{Resolver: nameServer(t, servfail)}).DialContext }, host: named},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var seen calls
			srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				seen.note(r)
				w.WriteHeader(http.StatusCreated)
			}))
			l := &faultyListener{Listener: srv.Listener, spoil: c.spoil}
			if c.spoil != nil {
				l.failing.left.Store(faults)
			}
			srv.Listener = l
			start := srv.Start
			if c.tls {
				start = srv.StartTLS
			}
			start()
			defer srv.Close()
			url := srv.URL
			if c.host != nil {
				url = c.host(srv.Listener.Addr())
			}
			dir := t.TempDir()
			sys, stdout, stderr := testSystem("upload", "--url", url, "--state-dir", dir, "--config", trusting(t, srv.TLS), "--backoff-base", "20ms", "--backoff-cap", "100ms",
				"--breaker-open", "20ms", "--breaker-open-max", "40ms", "--breaker-store", "memory", "--max-attempts", "20", "--retry-budget-min", "100", writeNight(t, 10))
			if c.dial != nil {
				sys.dial = c.dial(t)
			}
			if code := run(sys); code != exitOK {
				t.Fatalf("exit %d\n%s%s", code, stdout, stderr)
			}
			r := lastReport(t, dir)
			if r.Acked != 10 || len(seen.keys) != 10 || len(seen.times) != 10 || r.Retries < 10 || r.Transitions == 0 {
				t.Errorf("%d keys in %d requests, %d retries, %d breaker changes, %+v\n%s", len(seen.keys), len(seen.times), r.Retries, r.Transitions, r.Counts, stderr)
			}
		})
	}
}

type dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

// refusing dials a port where nobody listens, for a while.
func refusing(*testing.T) dialer {
	var f failing
	f.left.Store(faults)
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if f.now() {
			addr = "127.0.0.1:1"
		}
		return (&net.Dialer{Timeout: time.Second}).DialContext(ctx, network, addr)
	}
}

func named(addr net.Addr) string {
	_, port, _ := net.SplitHostPort(addr.String())
	return "http://api.test.:" + port
}

// trusting writes a configuration that trusts a test server's certificate.
func trusting(t *testing.T, cfg *tls.Config) string {
	t.Helper()
	dir := t.TempDir()
	text := "{}\n"
	if cfg != nil && len(cfg.Certificates) > 0 {
		ca := filepath.Join(dir, "ca.pem")
		if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cfg.Certificates[0].Certificate[0]}), 0o600); err != nil {
			t.Fatal(err)
		}
		text = "api: {tls: {ca_file: " + ca + "}}\n"
	}
	path := filepath.Join(dir, "trafficup.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

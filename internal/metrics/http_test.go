package metrics

import (
	"context"
	"errors"
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
)

var errRead = errors.New("cannot be read")

func TestHandler(t *testing.T) {
	var err error
	h := Handler(func() ([]byte, error) { return []byte("up 1\n"), err })
	ask := func() *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		return w
	}
	if w := ask(); w.Code != 200 || w.Body.String() != "up 1\n" || w.Header().Get("Content-Type") != "text/plain; version=0.0.4; charset=utf-8" {
		t.Errorf("%d %q %v", w.Code, w.Body, w.Header())
	}
	err = errRead
	if w := ask(); w.Code != 500 || !strings.Contains(w.Body.String(), errRead.Error()) || strings.Contains(w.Body.String(), "up") {
		t.Errorf("%d %q", w.Code, w.Body)
	}
}

// What is served is the metrics and a word of where they are, to those who only
// read. It ends with its context, also while
// somebody is connected and says nothing.
func TestServe(t *testing.T) {
	l := must(net.Listen("tcp", "127.0.0.1:0"))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- Serve(ctx, l, "program", func() ([]byte, error) { return []byte("up 1\n"), nil })
	}()
	url := "http://" + l.Addr().String()
	ask := func(method, path string) (int, string) {
		r := must(http.DefaultClient.Do(must(http.NewRequest(method, url+path, nil))))
		body := must(io.ReadAll(r.Body))
		_ = r.Body.Close()
		return r.StatusCode, string(body)
	}
	for _, c := range []struct {
		method, path string
		code         int
		word         string
	}{
		{"GET", "/", 200, "/metrics\n"}, {"HEAD", "/metrics", 200, ""},
		{"POST", "/metrics", 405, ""}, {"GET", "/metrics/", 404, ""}, {"GET", "/debug/pprof/", 404, ""}, {"POST", "/", 405, ""},
	} {
		if code, body := ask(c.method, c.path); code != c.code || !strings.HasSuffix(body, c.word) {
			t.Errorf("%s %s: %d %q", c.method, c.path, code, body)
		}
	}
	code, body := ask("GET", "/metrics")
	if code != 200 || body != "up 1\n" {
		t.Errorf("%d %s", code, body)
	}
	silent := must(net.Dial("tcp", l.Addr().String()))
	defer func() { _ = silent.Close() }()
	stop()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it does not end")
	}
	if c, err := net.Dial("tcp", l.Addr().String()); err == nil {
		_ = c.Close()
		t.Error("it still listens")
	}
	http.DefaultClient.CloseIdleConnections()
}

// A listener that breaks ends it with the reason, and leaves nothing behind.
func TestServeBroken(t *testing.T) {
	l := must(net.Listen("tcp", "127.0.0.1:0"))
	_ = l.Close()
	if err := Serve(t.Context(), l, "program", nil); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Error(err)
	}
}

// pipes is a listener whose connections are pipes.
type pipes struct {
	calls chan net.Conn
	open  atomic.Int64
	most  atomic.Int64
}

type pipe struct {
	net.Conn
	once sync.Once
	of   *pipes
}

func (p *pipe) Close() error {
	p.once.Do(func() { p.of.open.Add(-1) })
	return p.Conn.Close()
}

func (p *pipes) Accept() (net.Conn, error) {
	c, ok := <-p.calls
	if !ok {
		return nil, net.ErrClosed
	}
	p.most.Store(max(p.most.Load(), p.open.Add(1)))
	return &pipe{Conn: c, of: p}, nil
}
func (p *pipes) Close() error   { return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// Those who connect and say nothing, before a request or after one, are no more than
// so many at once, and do not keep others out for long.
func TestServeIdle(t *testing.T) {
	for name, say := range map[string]string{"nothing": "", "one request": "GET / HTTP/1.1\r\nHost: x\r\n\r\n"} {
		synctest.Test(t, func(t *testing.T) {
			l := &pipes{calls: make(chan net.Conn, 200)}
			var ours []net.Conn
			call := func() net.Conn {
				c, theirs := net.Pipe()
				ours = append(ours, c)
				l.calls <- theirs
				return c
			}
			for range 3 * maxReaders {
				c := call()
				go func() { _, _ = io.WriteString(c, say); _, _ = io.Copy(io.Discard, c) }()
			}
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- Serve(ctx, l, "program", func() ([]byte, error) { return []byte("up 1\n"), nil }) }()
			synctest.Wait()
			start, late := time.Now(), call()
			go func() { _, _ = io.WriteString(late, "GET /metrics HTTP/1.0\r\n\r\n") }()
			answer := string(must(io.ReadAll(late)))
			if took := time.Since(start); !strings.HasSuffix(answer, "up 1\n") || took > 35*time.Second || l.most.Load() != maxReaders {
				t.Errorf("%s: %q after %v, %d at once", name, answer, took, l.most.Load())
			}
			stop()
			close(l.calls)
			if err := <-ended; err != nil {
				t.Error(err)
			}
			for _, c := range ours {
				_ = c.Close()
			}
		})
	}
}

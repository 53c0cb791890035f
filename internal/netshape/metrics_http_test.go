package netshape

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestMetricsHandler(t *testing.T) {
	var err error
	h := MetricsHandler(func() ([]byte, error) { return []byte("up 1\n"), err })
	ask := func() *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		return w
	}
	if w := ask(); w.Code != 200 || w.Body.String() != "up 1\n" || w.Header().Get("Content-Type") != "text/plain; version=0.0.4; charset=utf-8" {
		t.Errorf("%d %q %v", w.Code, w.Body, w.Header())
	}
	err = errFake
	if w := ask(); w.Code != 500 || !strings.Contains(w.Body.String(), errFake.Error()) || strings.Contains(w.Body.String(), "up") {
		t.Errorf("%d %q", w.Code, w.Body)
	}
}

// What is served is the metrics and a word of where they are, to those who only
// read; promtool finds no fault with it. It ends with its context, also while
// somebody is connected and says nothing.
func TestServeMetrics(t *testing.T) {
	l := must(net.Listen("tcp", "127.0.0.1:0"))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- ServeMetrics(ctx, l, func() ([]byte, error) { return []byte(metricsOf(t, shaped())), nil })
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
	if code != 200 || body != metricsOf(t, shaped()) {
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
	checkMetrics(t, body)
}

// A listener that breaks ends it with the reason, and leaves nothing behind.
func TestServeMetricsBroken(t *testing.T) {
	l := must(net.Listen("tcp", "127.0.0.1:0"))
	_ = l.Close()
	if err := ServeMetrics(t.Context(), l, nil); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Error(err)
	}
}

//go:build linux

package redislab

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	goodTime = 5 * time.Millisecond  // an answer takes while all is well
	badTime  = 20 * time.Millisecond // and during an outage
)

// api takes records, or answers 503. It writes down each request.
type api struct {
	url   string
	begin time.Time // all times are counted from here

	mu      sync.Mutex
	failing bool   // guarded by mu
	calls   []call // guarded by mu
}

// call is a request: when it came and when its answer was sent.
type call struct {
	at, end  time.Duration
	run, key string
	ok       bool
}

// from is the name of the upload that made the call.
func (c call) from() string {
	name, _, _ := strings.Cut(c.key, "-")
	return name
}

func newAPI(t *testing.T) *api {
	a := &api{begin: time.Now()}
	srv := httptest.NewServer(a)
	t.Cleanup(srv.Close)
	a.url = srv.URL + "/v1/logs"
	return a
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := call{at: a.now(), run: r.Header.Get("X-Trafficup-Run"), key: r.Header.Get("Idempotency-Key")}
	_, _ = io.Copy(io.Discard, r.Body) // a request that is cut off gets an answer all the same
	a.mu.Lock()
	c.ok = !a.failing
	a.mu.Unlock()
	status, delay := http.StatusCreated, goodTime
	if !c.ok {
		status, delay = http.StatusServiceUnavailable, badTime
	}
	time.Sleep(delay)
	c.end = a.now()
	a.mu.Lock()
	a.calls = append(a.calls, c)
	a.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"id":%q}`, c.key)
}

func (a *api) now() time.Duration { return time.Since(a.begin) }

// since is a time of the machine's clock.
func (a *api) since(t time.Time) time.Duration { return t.Sub(a.begin.Round(0)) }

// fail begins an outage, or ends it, and returns when.
func (a *api) fail(failing bool) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failing = failing
	return a.now()
}

// answered returns the calls so far, in the order in which they came.
func (a *api) answered() []call {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := slices.Clone(a.calls)
	slices.SortFunc(all, func(x, y call) int { return cmp.Compare(x.at, y.at) })
	return all
}

// between returns those that came in a time.
func between(all []call, from, to time.Duration) (some []call) {
	for _, c := range all {
		if from <= c.at && c.at < to {
			some = append(some, c)
		}
	}
	return some
}

// firsts returns the first of each upload.
func firsts(all []call) map[string]call {
	first := map[string]call{}
	for _, c := range all {
		if _, known := first[c.from()]; !known {
			first[c.from()] = c
		}
	}
	return first
}

// lasts returns the last of each upload.
func lasts(all []call) map[string]call {
	last := map[string]call{}
	for _, c := range all {
		last[c.from()] = c
	}
	return last
}

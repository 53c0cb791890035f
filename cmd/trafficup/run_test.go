package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

func writeNight(t *testing.T, n int) string {
	t.Helper()
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"spot_id":"SP-%d","idempotency_key":"key-%06d","payload":{"house_number":"WXYZ-%07d"}}`+"\n", i, i, i)
	}
	path := filepath.Join(t.TempDir(), "night.ndjson")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A signal winds a run down: what is in flight ends, the rest is halted and
// not condemned, the code is the signal's.
func TestSignalWindsDown(t *testing.T) {
	soft, interrupt := context.WithCancel(context.Background())
	dir := t.TempDir()
	sys, stdout, stderr := testSystem()
	sys.soft = soft
	var calls atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1) == 20 {
			sys.signal.Store(int32(syscall.SIGINT))
			interrupt()
		}
		w.WriteHeader(http.StatusCreated)
	}))
	defer srv.Close()
	sys.args = []string{"upload", "--url", srv.URL, "--state-dir", dir, writeNight(t, 5000)}
	if code := run(sys); code != 130 {
		t.Fatalf("exit %d\n%s%s", code, stdout, stderr)
	}
	r := lastReport(t, dir)
	if r.Acked != int64(calls.Load()) || r.Acked+r.Halted != r.Read || r.Acked > 100 {
		t.Errorf("%d calls, %+v", calls.Load(), r.Counts)
	}
	if letters, _ := filepath.Glob(dir + "/deadletters/*.ndjson"); len(letters) != 0 {
		t.Errorf("records were condemned: %v", letters)
	}
	if !strings.Contains(stdout.String(), "run the same command again") {
		t.Errorf("no hint in\n%s", stdout)
	}
}

// The breaker outlives the run: the next one finds it open and sends nothing.
func TestNextRunFindsTheBreakerOpen(t *testing.T) {
	var calls atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer srv.Close()
	dir, night := t.TempDir(), writeNight(t, 100)
	for i, want := range []string{"some", "none"} {
		before := calls.Load()
		sys, stdout, stderr := testSystem("upload", "--url", srv.URL, "--state-dir", dir, "--breaker-threshold", "3", "--halt-after", "100ms", night)
		if code := run(sys); code != exitWaiting {
			t.Fatalf("run %d: exit %d\n%s%s", i+1, code, stdout, stderr)
		}
		if sent := calls.Load() - before; (sent == 0) != (want == "none") || sent > 3+8 {
			t.Errorf("run %d sent %d requests, want %s", i+1, sent, want)
		}
	}
	if letters, _ := filepath.Glob(dir + "/deadletters/*.ndjson"); len(letters) != 0 {
		t.Errorf("records were condemned: %v", letters)
	}
}

// One run at a time holds a state directory.
func TestSecondRunIsLockedOut(t *testing.T) {
	dir, night := t.TempDir(), writeNight(t, 1)
	var inner int
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sys, _, _ := testSystem("upload", "--url", "http://127.0.0.1:1", "--state-dir", dir, night)
		inner = run(sys)
		w.WriteHeader(http.StatusCreated)
	}))
	defer srv.Close()
	sys, stdout, stderr := testSystem("upload", "--url", srv.URL, "--state-dir", dir, night)
	if code := run(sys); code != exitOK || inner != exitLocked {
		t.Fatalf("exit %d and %d\n%s%s", code, inner, stdout, stderr)
	}
}

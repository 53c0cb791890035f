package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"trafficup/internal/deadletter"
	"trafficup/internal/disk"
	"trafficup/internal/disk/disktest"
)

// lettersAPI answers with what status returns and counts calls by key.
type lettersAPI struct {
	*httptest.Server
	mu     sync.Mutex
	calls  map[string]int    // guarded by mu
	status func(nth int) int // guarded by mu; nth call, from 1
	total  int               // guarded by mu
}

func newLettersAPI(t *testing.T) *lettersAPI {
	a := &lettersAPI{calls: map[string]int{}}
	a.answer(http.StatusCreated)
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.calls[r.Header.Get("Idempotency-Key")]++
		a.total++
		w.WriteHeader(a.status(a.total))
	}))
	t.Cleanup(a.Close)
	return a
}

func (a *lettersAPI) answer(status int) { a.answerBy(func(int) int { return status }) }

func (a *lettersAPI) answerBy(status func(nth int) int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.status, a.total = status, 0
	clear(a.calls)
}

// keysOf returns the keys of the letters that count in the files of a directory.
func keysOf(t *testing.T, fsys disk.FS, dir string) (keys []string) {
	t.Helper()
	files, err := deadletter.Pending(fsys, dir)
	if err != nil {
		t.Fatal(err)
	}
	s := deadletter.NewScanner(fsys, files)
	for {
		e, err := s.Next()
		if err != nil {
			return keys
		}
		if !e.Superseded() {
			keys = append(keys, e.Key)
		}
	}
}

// refused makes a state directory with n dead letters, and returns the file.
func refused(t *testing.T, a *lettersAPI, n int) (dir, file string) {
	t.Helper()
	dir = t.TempDir()
	a.answer(http.StatusUnprocessableEntity)
	sys, stdout, stderr := testSystem("upload", "--poison-stop", "0", "--url", a.URL, "--state-dir", dir, writeNight(t, n))
	if code := run(sys); code != exitPerson {
		t.Fatalf("exit %d\n%s%s", code, stdout, stderr)
	}
	files, err := deadletter.Pending(disk.OS{}, filepath.Join(dir, "deadletters"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	return dir, files[0]
}

// A settle that died leaves letters of records that the API has: they are done
// without a request.
func TestReplayOfWhatWasAcked(t *testing.T) {
	a := newLettersAPI(t)
	dir, file := refused(t, a, 20)
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	a.answer(http.StatusCreated)
	for i, want := range []int{20, 0} {
		sys, stdout, stderr := testSystem("replay", "--url", a.URL, "--state-dir", dir)
		if code := run(sys); code != exitOK {
			t.Fatalf("replay %d: exit %d\n%s%s", i+1, code, stdout, stderr)
		}
		if len(a.calls) != want {
			t.Errorf("replay %d: %d keys were sent, want %d", i+1, len(a.calls), want)
		}
		if left := keysOf(t, disk.OS{}, filepath.Dir(file)); len(left) != 0 {
			t.Errorf("replay %d: %d letters are left", i+1, len(left))
		}
		a.answer(http.StatusCreated)
		if err := os.WriteFile(file, before, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// A signal ends a replay: what is done is archived, the rest waits for the next.
func TestReplayIsInterrupted(t *testing.T) {
	const n, stop = 400, 30
	a := newLettersAPI(t)
	dir, file := refused(t, a, n)
	soft, interrupt := context.WithCancel(context.Background())
	sys, stdout, stderr := testSystem("replay", "--url", a.URL, "--state-dir", dir)
	sys.soft = soft
	a.answerBy(func(nth int) int {
		if nth == stop {
			sys.signal.Store(int32(syscall.SIGTERM))
			interrupt()
		}
		return http.StatusCreated
	})
	if code := run(sys); code != 143 {
		t.Fatalf("exit %d\n%s%s", code, stdout, stderr)
	}
	sent := len(a.calls)
	left := keysOf(t, disk.OS{}, filepath.Dir(file))
	archived := keysOf(t, disk.OS{}, filepath.Join(filepath.Dir(file), "archive"))
	if sent < stop || sent > n/2 || len(left) != n-sent || len(archived) != sent {
		t.Fatalf("%d sent, %d left, %d archived", sent, len(left), len(archived))
	}
	for key := range a.calls {
		if slices.Contains(left, key) {
			t.Errorf("%s was sent and is left", key)
		}
	}
	a.answer(http.StatusCreated)
	sys, stdout, stderr = testSystem("replay", "--url", a.URL, "--state-dir", dir)
	if code := run(sys); code != exitOK || len(a.calls) != n-sent {
		t.Fatalf("exit %d, %d sent, want %d\n%s%s", code, len(a.calls), n-sent, stdout, stderr)
	}
}

// Every path is down: no letter is lost, none is there twice.
func TestReplayIsHalted(t *testing.T) {
	const n = 100
	a := newLettersAPI(t)
	dir, file := refused(t, a, n)
	a.answer(http.StatusServiceUnavailable)
	sys, stdout, stderr := testSystem("replay", "--url", a.URL, "--state-dir", dir, "--breaker-threshold", "3", "--halt-after", "100ms")
	if code := run(sys); code != exitWaiting {
		t.Fatalf("exit %d\n%s%s", code, stdout, stderr)
	}
	left := keysOf(t, disk.OS{}, filepath.Dir(file))
	slices.Sort(left)
	if len(left) != n || len(slices.Compact(left)) != n {
		t.Errorf("%d letters are left", len(left))
	}
}

// When a letter cannot be written, the one before it stays.
func TestReplayOnAFullDisk(t *testing.T) {
	a := newLettersAPI(t)
	_, file := refused(t, a, 10)
	letters, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	d := disktest.New()
	d.SetBytes("/s/deadletters/20260717T030000Z-aaaaaa.ndjson", letters)
	d.Hook(func(op disktest.Op) error {
		if op.Kind == disktest.Write && filepath.Dir(op.Name) == "/s/deadletters" && !strings.Contains(op.Name, "aaaaaa") {
			return syscall.ENOSPC
		}
		return nil
	})
	sys, stdout, stderr := testSystem("replay", "--url", a.URL, "--state-dir", "/s", "--breaker-store", "memory")
	sys.fs = d.FS()
	sys.lock = func(context.Context, string, string) (func() error, error) { return func() error { return nil }, nil }
	if code := run(sys); code != exitFailed {
		t.Fatalf("exit %d\n%s%s", code, stdout, stderr)
	}
	if left := keysOf(t, d.FS(), "/s/deadletters"); len(left) != 10 {
		t.Errorf("%d letters are left", len(left))
	}
}

func TestJudge(t *testing.T) {
	now := time.Date(2026, 7, 17, 12, 0, 0, 0, time.UTC)
	at := func(d time.Duration) *time.Time { t := now.Add(d); return &t }
	sent := func(ages ...time.Duration) (all []deadletter.Attempt) {
		for _, age := range ages {
			all = append(all, deadletter.Attempt{At: now.Add(-age)})
		}
		return all
	}
	for _, c := range []struct {
		name    string
		reason  string
		l       deadletter.Details
		invalid bool
		feed    *letterFeed
		want    cause
	}{
		{name: "fresh", reason: "exhausted", l: deadletter.Details{Attempts: sent(time.Minute)}},
		{name: "conflict", reason: "conflict", want: contradicts},
		{name: "correction", reason: "conflict", feed: &letterFeed{corrections: true}},
		{name: "not valid", reason: "invalid", invalid: true, want: unfit},
		{name: "valid by other rules", reason: "invalid"},
		{name: "last generation", l: deadletter.Details{Generation: 4}},
		{name: "one more", l: deadletter.Details{Generation: 5}, want: tooOften},
		{name: "young enough", l: deadletter.Details{Attempts: sent(time.Hour, time.Minute)}, feed: &letterFeed{keyTTL: time.Hour}},
		{name: "old by its first attempt", l: deadletter.Details{Attempts: sent(time.Hour+1, time.Minute)}, feed: &letterFeed{keyTTL: time.Hour}, want: tooOld},
		{name: "old, never sent", l: deadletter.Details{Run: "20200101T000000Z-abc123"}, feed: &letterFeed{keyTTL: time.Hour}},
		{name: "old, duplicates accepted", l: deadletter.Details{Attempts: sent(1000 * time.Hour)}},
		{name: "not yet", l: deadletter.Details{NotBefore: at(1)}, want: tooEarly},
		{name: "now", l: deadletter.Details{NotBefore: at(0)}},
		{name: "limit", feed: &letterFeed{limit: 2, refs: make([]deadletter.Ref, 2)}, want: overLimit},
		{name: "below the limit", feed: &letterFeed{limit: 2, refs: make([]deadletter.Ref, 1)}},
		{name: "person before time", l: deadletter.Details{NotBefore: at(1), Generation: 5}, want: tooOften},
	} {
		if c.feed == nil {
			c.feed = new(letterFeed)
		}
		c.feed.maxGenerations, c.feed.now = 5, now
		if got := c.feed.judge(&deadletter.Letter{Reason: c.reason, Details: c.l}, c.invalid); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// The history of a letter stays bounded, and keeps its beginning.
func TestTries(t *testing.T) {
	for _, n := range []int{0, 1, 49, 50, 51, 300} {
		var all []deadletter.Attempt
		for i := range n {
			all = append(all, deadletter.Attempt{Path: fmt.Sprint(i)})
		}
		got := tries(all)
		if len(got) != min(n, maxTries) {
			t.Fatalf("%d of %d are kept", len(got), n)
		}
		if n > 0 && (got[0].Path != "0" || got[len(got)-1].Path != fmt.Sprint(n-1)) {
			t.Errorf("of %d are kept %s to %s", n, got[0].Path, got[len(got)-1].Path)
		}
	}
}

func TestMoment(t *testing.T) {
	now := time.Date(2026, 7, 17, 12, 0, 0, 0, time.UTC)
	for s, want := range map[string]time.Time{
		"": {}, "36h": now.Add(-36 * time.Hour), "0s": now, "2026-07-16": now.Add(-36 * time.Hour),
		"2026-07-17T14:00:00+02:00": now,
	} {
		if got, err := moment("since", s, now); err != nil || !got.Equal(want) {
			t.Errorf("%q: %v, %v", s, got, err)
		}
	}
	for _, s := range []string{"yesterday", "-1h", "36", "2026-13-01"} {
		if got, err := moment("since", s, now); err == nil {
			t.Errorf("%q: %v", s, got)
		}
	}
}

func TestQuoted(t *testing.T) {
	for s, want := range map[string]string{"key-1": "key-1", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "a\nb": `'a\nb'`, "$HOME": "'$HOME'"} {
		if got := quoted(s); got != want {
			t.Errorf("%q: %s, want %s", s, got, want)
		}
	}
}

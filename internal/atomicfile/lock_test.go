package atomicfile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestTryLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := TryLock(path, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := TryLock(path, ""); !errors.Is(err, ErrLocked) {
		t.Errorf("second lock: %v", err)
	}
	if err := errors.Join(unlock(), unlock()); err != nil {
		t.Error(err)
	}
	again, err := TryLock(path, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := again(); err != nil {
		t.Error(err)
	}
	if _, err := TryLock(filepath.Join(path, "below a file"), ""); err == nil || errors.Is(err, ErrLocked) {
		t.Errorf("impossible path: %v", err)
	}
}

func TestLockOutlivesItsUnlock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if _, err := TryLock(path, ""); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		runtime.GC()
	}
	if _, err := TryLock(path, ""); !errors.Is(err, ErrLocked) {
		t.Errorf("the collector freed the lock: %v", err)
	}
}

func TestLockWaits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	synctest.Test(t, func(t *testing.T) {
		unlock, err := Lock(t.Context(), path, "")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		if _, err := Lock(ctx, path, ""); !errors.Is(err, ErrLocked) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("while taken: %v", err)
		}
		if d := time.Since(start); d != time.Minute {
			t.Errorf("waited %s", d)
		}
		time.AfterFunc(time.Minute, func() { _ = unlock() })
		again, err := Lock(t.Context(), path, "")
		if err != nil {
			t.Fatal(err)
		}
		_ = again()
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		last, err := Lock(ended, path, "")
		if err != nil {
			t.Errorf("a free lock with an ended context: %v", err)
		} else {
			_ = last()
		}
	})
}

// taken returns the error of a lock that must be taken.
func taken(t *testing.T, path string) *LockedError {
	t.Helper()
	_, err := TryLock(path, "late")
	e, ok := errors.AsType[*LockedError](err)
	if !ok || !errors.Is(err, ErrLocked) || e.Path != path {
		t.Fatalf("%v, want the lock to be taken", err)
	}
	return e
}

func TestLockNamesItsHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	host, err := os.Hostname()
	if err != nil {
		t.Skip(err)
	}
	// What a dead holder left is written over, also when it is longer.
	if err := os.WriteFile(path, []byte(strings.Repeat("x", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	unlock, err := TryLock(path, "upload")
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf(`^lock %s: held by pid %d on %s \(upload, since [0-9:]{8}Z\)$`, regexp.QuoteMeta(path), os.Getpid(), regexp.QuoteMeta(host))
	if e := taken(t, path); !regexp.MustCompile(want).MatchString(e.Error()) {
		t.Errorf("%q, want %s", e, want)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Lock(ctx, path, "replay"); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "(upload, since ") {
		t.Errorf("after waiting: %v", err)
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	next, err := Lock(t.Context(), path, "replay")
	if err != nil {
		t.Fatal(err)
	}
	if e := taken(t, path); !strings.Contains(e.Holder, "(replay, since ") {
		t.Errorf("the next holder is %q", e.Holder)
	}
	if text, err := os.ReadFile(path); err != nil || !signature.Match(text) {
		t.Errorf("file holds %q, %v", text, err)
	}
	if err := next(); err != nil {
		t.Error(err)
	}
}

func TestHolderOfAnyText(t *testing.T) {
	const good = "pid=1234 host=edge-7 command=upload since=2026-07-17T00:03:11Z\n"
	for text, want := range map[string]string{
		good:                          "pid 1234 on edge-7 (upload, since 00:03:11Z)",
		"":                            "another process",
		good[:len(good)-1]:            "another process", // being written
		good + good:                   "another process",
		" " + good:                    "another process",
		strings.Repeat("\x00", 1<<20): "another process",
		strings.Replace(good, "edge-7", "\x1b[31m", 1):               "another process",
		strings.Replace(good, "edge-7", "\u202eegde", 1):             "another process",
		strings.Replace(good, "upload", "a b", 1):                    "another process",
		strings.Replace(good, "1234", "-1", 1):                       "another process",
		strings.Replace(good, "edge-7", strings.Repeat("h", 250), 1): "another process",
		strings.Replace(good, "00:03:11Z", "00:03:11Z pid=1", 1):     "another process",
		"1234\n": "another process",
	} {
		path := filepath.Join(t.TempDir(), "lock")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		unlock, err := TryLock(path, "") // leaves the text as it is
		if err != nil {
			t.Fatal(err)
		}
		if e := taken(t, path); e.Holder != want {
			t.Errorf("%.100q: held by %q, want %q", text, e.Holder, want)
		}
		_ = unlock()
	}
	if got := holder(filepath.Join(t.TempDir(), "none")); got != "another process" {
		t.Errorf("no file: %q", got)
	}
}

func FuzzHolder(f *testing.F) {
	f.Add([]byte("pid=1 host=h command=c since=2026-07-17T00:03:11Z\n"))
	path := filepath.Join(f.TempDir(), "lock")
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		got := holder(path)
		odd := strings.ContainsFunc(got, func(r rune) bool { return r < ' ' || r > '~' })
		if got == "" || odd || len(got) > maxSignature {
			t.Errorf("%q gives %q", text, got)
		}
	})
}

// A lock does not need the text about it to be written.
func TestLockWithoutItsText(t *testing.T) {
	dir := t.TempDir()
	readOnly, full := filepath.Join(dir, "read-only"), filepath.Join(dir, "full")
	if err := os.WriteFile(readOnly, nil, 0o400); err != nil {
		t.Fatal(err)
	}
	paths := []string{readOnly}
	if _, err := os.Stat("/dev/full"); err == nil {
		if err := os.Symlink("/dev/full", full); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, full)
	}
	for _, path := range paths {
		// All of the machine share /dev/full: this test may run twice at a time.
		unlock, err := Lock(t.Context(), path, "upload")
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		who := taken(t, path).Holder
		if path == full && who != "another process" {
			t.Errorf("%s: held by %q", path, who)
		}
		if err := unlock(); err != nil {
			t.Error(err)
		}
	}
}

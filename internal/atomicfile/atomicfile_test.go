package atomicfile

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var writers = map[string]func(string, []byte, fs.FileMode) error{"Write": Write, "Replace": Replace}

func TestWriteReplacesContentAndMode(t *testing.T) {
	for name, write := range writers {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "f")
			for _, c := range []struct {
				data string
				mode fs.FileMode
			}{{"first", 0o644}, {"", 0o600}, {"third", 0o666}} {
				if err := write(path, []byte(c.data), c.mode); err != nil {
					t.Fatal(err)
				}
				got, err := os.ReadFile(path)
				if err != nil || string(got) != c.data {
					t.Errorf("%q, %v; want %q", got, err, c.data)
				}
				if info, err := os.Stat(path); err != nil || info.Mode() != c.mode {
					t.Errorf("mode %v, %v; want %v", info.Mode(), err, c.mode)
				}
			}
			onlyFile(t, dir, "f")
		})
	}
}

func TestWriteFailureLeavesNothingBehind(t *testing.T) {
	for name, write := range writers {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.Mkdir(filepath.Join(dir, "d"), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := write(filepath.Join(dir, "d"), []byte("x"), 0o600); err == nil {
				t.Error("a directory was replaced")
			}
			onlyFile(t, dir, "d")
			err := write(filepath.Join(dir, "none", "f"), []byte("x"), 0o600)
			if !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("missing directory: %v", err)
			}
		})
	}
}

func TestWriteReplacesLinkNotTarget(t *testing.T) {
	for name, write := range writers {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			target, link := filepath.Join(dir, "target"), filepath.Join(dir, "link")
			if err := errors.Join(os.WriteFile(target, []byte("old"), 0o600), os.Symlink(target, link)); err != nil {
				t.Fatal(err)
			}
			if err := write(link, []byte("new"), 0o600); err != nil {
				t.Fatal(err)
			}
			if got, _ := os.ReadFile(target); string(got) != "old" {
				t.Errorf("target now %q", got)
			}
		})
	}
}

func TestReadersSeeWholeFiles(t *testing.T) {
	for name, write := range writers {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "f")
			long := strings.Repeat("x", 1<<16)
			if err := write(path, []byte(long), 0o600); err != nil {
				t.Fatal(err)
			}
			done := make(chan struct{})
			var wg sync.WaitGroup
			wg.Go(func() {
				defer close(done)
				for i := range 50 {
					if err := write(path, []byte(long[:1<<16-i]), 0o600); err != nil {
						t.Error(err)
					}
				}
			})
			for running := true; running; {
				select {
				case <-done:
					running = false
				default:
				}
				if got, err := os.ReadFile(path); err != nil || len(got) < 1<<16-50 {
					t.Fatalf("%d bytes, %v", len(got), err)
				}
			}
			wg.Wait()
		})
	}
}

func TestTryLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := TryLock(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := TryLock(path); !errors.Is(err, ErrLocked) {
		t.Errorf("second lock: %v", err)
	}
	if err := errors.Join(unlock(), unlock()); err != nil {
		t.Error(err)
	}
	again, err := TryLock(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := again(); err != nil {
		t.Error(err)
	}
	if _, err := TryLock(filepath.Join(path, "below a file")); err == nil || errors.Is(err, ErrLocked) {
		t.Errorf("impossible path: %v", err)
	}
}

func TestLockOutlivesItsUnlock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if _, err := TryLock(path); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		runtime.GC()
	}
	if _, err := TryLock(path); !errors.Is(err, ErrLocked) {
		t.Errorf("the collector freed the lock: %v", err)
	}
}

func TestLockWaits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	synctest.Test(t, func(t *testing.T) {
		unlock, err := Lock(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		if _, err := Lock(ctx, path); !errors.Is(err, ErrLocked) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("while taken: %v", err)
		}
		if d := time.Since(start); d != time.Minute {
			t.Errorf("waited %s", d)
		}
		time.AfterFunc(time.Minute, func() { _ = unlock() })
		again, err := Lock(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		_ = again()
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		last, err := Lock(ended, path)
		if err != nil {
			t.Errorf("a free lock with an ended context: %v", err)
		} else {
			_ = last()
		}
	})
}

func TestLockIsFreedByDeath(t *testing.T) {
	if path := os.Getenv("ATOMICFILE_LOCK"); path != "" {
		if _, err := TryLock(path); err != nil {
			t.Fatal(err)
		}
		os.Stdout.WriteString("locked\n")
		_, _ = os.Stdin.Read(make([]byte, 1)) // until killed
		return
	}
	path := filepath.Join(t.TempDir(), "lock")
	cmd := exec.Command(os.Args[0], "-test.run=^TestLockIsFreedByDeath$")
	cmd.Env = append(os.Environ(), "ATOMICFILE_LOCK="+path)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
	if _, err := TryLock(path); !errors.Is(err, ErrLocked) {
		t.Errorf("lock of a living process: %v", err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if unlock, err := TryLock(path); err != nil {
		t.Errorf("lock of a dead process: %v", err)
	} else {
		_ = unlock()
	}
}

func onlyFile(t *testing.T, dir, name string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 || entries[0].Name() != name {
		t.Errorf("directory holds %v, want %s alone", entries, name)
	}
}

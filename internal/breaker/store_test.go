package breaker_test

import (
	"encoding/json/v2"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"trafficup/internal/atomicfile"
	"trafficup/internal/breaker"
	"trafficup/internal/breaker/breakertest"
)

func TestMemory(t *testing.T) {
	stores := sync.Map{}
	breakertest.Run(t, func(t *testing.T) breaker.Store {
		s, _ := stores.LoadOrStore(t.Name(), breaker.NewMemory())
		return s.(breaker.Store)
	})
}

func TestFile(t *testing.T) {
	dir := t.TempDir()
	breakertest.Run(t, func(t *testing.T) breaker.Store {
		return breaker.NewFile(filepath.Join(dir, strings.ReplaceAll(filepath.Base(t.Name()), " ", "_")))
	})
}

func fail(s breaker.State, _ time.Time) breaker.State { s.Failures++; return s }
func same(s breaker.State, _ time.Time) breaker.State { return s }

func TestFileFormat(t *testing.T) {
	path := filepath.Join(t.TempDir(), "breaker.json")
	s := breaker.NewFile(path)
	if _, err := s.Update(t.Context(), "primary", same); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("written although nothing changed: %v", err)
	}
	if _, err := s.Update(t.Context(), "primary", fail); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if want := `{"v":1,"breakers":{"primary":{"phase":0,"failures":1}}}` + "\n"; err != nil || string(data) != want {
		t.Errorf("%s, %v; want %s", data, err, want)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestFileDamaged(t *testing.T) {
	for name, content := range map[string]string{
		"empty": "", "truncated": `{"v":1,"breakers":{"primary":{"pha`, "garbage": "\x00\xff\x17 not json", "other version": `{"v":2,"breakers":{}}`,
		"wrong type": `{"v":1,"breakers":[]}`, "wrong time": `{"v":1,"breakers":{"primary":{"phase":2,"open_until":"soon"}}}`,
		"repeated member": `{"v":1,"v":1,"breakers":{}}`, "two documents": `{"v":1,"breakers":{}}{}`, "null": "null",
		"huge": strings.Repeat(" ", 1<<20) + `{"v":1,"breakers":{}}`, "year out of range": `{"v":1,"breakers":{"primary":{"phase":2,"open_until":"99999-01-01T00:00:00Z"}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "breaker.json")
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			s := breaker.NewFile(path)
			if got, err := s.Load(t.Context(), "primary"); err != nil || got != (breaker.State{}) {
				t.Errorf("load: %+v, %v", got, err)
			}
			if got, err := s.Update(t.Context(), "primary", fail); err != nil || got.Failures != 1 {
				t.Errorf("update: %+v, %v", got, err)
			}
			if bad, err := os.ReadFile(path + ".bad"); err != nil || string(bad) != content {
				t.Errorf("copy: %.40q, %v", bad, err)
			}
			if got, err := breaker.NewFile(path).Load(t.Context(), "primary"); err != nil || got.Failures != 1 {
				t.Errorf("read back: %+v, %v", got, err)
			}
		})
	}
}

func TestFileNamedPipeDoesNotHang(t *testing.T) {
	path := filepath.Join(t.TempDir(), "breaker.json")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	if got, err := breaker.NewFile(path).Update(t.Context(), "primary", fail); err != nil || got.Failures != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}

// A directory in its place, or no directory to be in: the error is told, and
// the state goes on in memory until the file can be written.
func TestFileUnwritable(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		path      string
		hurt, fix func(path string) error
	}{
		"directory": {filepath.Join(dir, "a.json"), func(p string) error { return os.Mkdir(p, 0o700) }, os.Remove},
		"no parent": {filepath.Join(dir, "none", "b.json"), func(string) error { return nil },
			func(p string) error { return os.Mkdir(filepath.Dir(p), 0o700) }},
	} {
		t.Run(name, func(t *testing.T) {
			if err := c.hurt(c.path); err != nil {
				t.Fatal(err)
			}
			s := breaker.NewFile(c.path)
			for i := range 3 {
				for _, key := range []string{"primary", "fallback"} {
					if got, err := s.Update(t.Context(), key, fail); err == nil || got.Failures != i+1 {
						t.Errorf("update %d: %+v, %v", i, got, err)
					}
				}
			}
			if got, _ := s.Load(t.Context(), "primary"); got.Failures != 3 {
				t.Errorf("load: %+v", got)
			}
			if err := c.fix(c.path); err != nil {
				t.Fatal(err)
			}
			if got, err := s.Update(t.Context(), "primary", fail); err != nil || got.Failures != 4 {
				t.Errorf("after the repair: %+v, %v", got, err)
			}
			// Both keys reach the file, though only one was updated.
			other := breaker.NewFile(c.path)
			for key, want := range map[string]int{"primary": 4, "fallback": 3} {
				if got, err := other.Load(t.Context(), key); err != nil || got.Failures != want {
					t.Errorf("%s in the file: %+v, %v", key, got, err)
				}
			}
		})
	}
}

// What went on in memory while the file could not be written does not undo what
// an operator wrote since.
func TestFileOperatorGoesBeforeMemory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none", "breaker.json")
	run := breaker.NewFile(path)
	for range 100 {
		if _, err := run.Update(t.Context(), "primary", func(s breaker.State, _ time.Time) breaker.State { s.Generation++; return s }); err == nil {
			t.Fatal("written")
		}
	}
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	held, err := breaker.NewFile(path).Update(t.Context(), "primary", func(s breaker.State, now time.Time) breaker.State {
		return cfg.Force(s, breaker.Force{Phase: breaker.Open, Until: now.Add(time.Hour)}, now)
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := run.Update(t.Context(), "primary", same); err != nil || got != held {
		t.Errorf("%+v, %v, want %+v", got, err, held)
	}
}

func TestFileHolderThatNeverLetsGo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "breaker.json")
	synctest.Test(t, func(t *testing.T) {
		unlock, err := atomicfile.TryLock(path+".lock", "")
		if err != nil {
			t.Fatal(err)
		}
		b := breaker.New(breaker.Config{Threshold: 100}, breaker.NewFile(path), "primary", nil)
		start := time.Now()
		for range 50 {
			p, _, ok, _ := b.Allow(time.Now())
			if err := b.Record(p, breaker.Fail, time.Now()); !ok || !errors.Is(err, atomicfile.ErrLocked) {
				t.Fatalf("%v, %v", ok, err)
			}
		}
		if d := time.Since(start); d > 2*time.Second {
			t.Errorf("fifty results took %s", d)
		}
		if got := b.State().Failures; got != 50 {
			t.Errorf("%d failures counted", got)
		}
		if err := unlock(); err != nil {
			t.Fatal(err)
		}
		p, _, _, _ := b.Allow(time.Now())
		if err := b.Record(p, breaker.Fail, time.Now()); err != nil {
			t.Errorf("after the lock was freed: %v", err)
		}
		if got, err := breaker.NewFile(path).Load(t.Context(), "primary"); err != nil || got.Failures != 51 {
			t.Errorf("file holds %+v, %v", got, err)
		}
	})
}

func TestFileTooManyKeys(t *testing.T) {
	path := filepath.Join(t.TempDir(), "breaker.json")
	keys := make(map[string]breaker.State)
	for i := range 256 {
		keys[strings.Repeat("k", i)] = breaker.State{Failures: 1}
	}
	data, err := json.Marshal(map[string]any{"v": 1, "breakers": keys})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	s := breaker.NewFile(path)
	if got, err := s.Update(t.Context(), "one more", fail); err == nil || got.Failures != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := s.Update(t.Context(), "k", fail); err != nil || got.Failures != 2 {
		t.Errorf("a known key: %+v, %v", got, err)
	}
}

func FuzzFile(f *testing.F) {
	f.Add([]byte(`{"v":1,"breakers":{"primary":{"phase":2,"open_until":"2099-01-01T00:00:00Z","opens":9}}}`))
	f.Add([]byte(`{"v":1,"breakers":{"primary":{"phase":1,"probe_until":"1970-01-01T00:00:00+14:00"}}}`))
	f.Add([]byte(`{"v":1,"breakers":{"primary":{"phase":-9,"failures":-9223372036854775808}}}`))
	f.Add([]byte(`{"v":1,"breakers":{"primary":{"phase":2,"force":{"phase":2,"until":"2099-01-01T00:00:00Z","reason":"r","by":"b","at":"0000-01-01T00:00:00+14:00"}}}}`))
	f.Add([]byte(`{"v":1,"breakers":{"primary":{"phase":1,"force":{"phase":0,"until":"1970-01-01T00:00:00Z"},"changes":["2099-01-01T00:00:00Z","0001-01-01T00:00:00Z"]}}}`))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(dir, "breaker.json")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		cfg := breaker.DefaultConfig()
		var retryAt, at time.Time
		allow := func(s breaker.State, now time.Time) breaker.State {
			s, _, retryAt = cfg.Allow(s, now, 0.5)
			at = now
			return s
		}
		got, err := breaker.NewFile(path).Update(t.Context(), "primary", allow)
		if err != nil {
			t.Fatal(err)
		}
		if retryAt.After(at.Add(cfg.OpenMax)) {
			t.Fatalf("shut until %s", retryAt)
		}
		if got.Force.Until.After(at.Add(breaker.MaxForce)) {
			t.Fatalf("forced until %s", got.Force.Until)
		}
		if back, err := breaker.NewFile(path).Load(t.Context(), "primary"); err != nil || back != got {
			t.Fatalf("%+v reads back as %+v, %v", got, back, err)
		}
	})
}

package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
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

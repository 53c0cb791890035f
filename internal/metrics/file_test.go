package metrics

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Whoever reads the file while it is written, by several, finds one whole.
func TestSave(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "netshape.prom")
	content := func(n int) string { return strings.Repeat(strconv.Itoa(n)+"\n", 5000) }
	var all sync.WaitGroup
	for n := range 3 {
		all.Go(func() {
			for range 30 {
				if err := Save(path, []byte(content(n))); err != nil {
					t.Error(err)
				}
				if data, err := os.ReadFile(path); err != nil || !slices.Contains([]string{content(0), content(1), content(2)}, string(data)) {
					t.Errorf("%d bytes, %v", len(data), err)
				}
			}
		})
	}
	all.Wait()
	entries := must(os.ReadDir(dir))
	if info := must(os.Stat(path)); len(entries) != 1 || info.Mode() != 0o644 {
		t.Errorf("%v, %v", entries, info.Mode())
	}
	if err := os.Mkdir(filepath.Join(dir, "taken.prom"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{filepath.Join(dir, "none", "x.prom"), filepath.Join(dir, "taken.prom")} {
		err := Save(bad, nil)
		if err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("%s: %v", bad, err)
		}
		if again := Save(bad, nil); strings.Contains(bad, "none") && again.Error() != err.Error() {
			t.Errorf("%s: first %v, then %v: it would be told each time", bad, err, again)
		}
	}
	if left := must(fs.Glob(os.DirFS(dir), "*.tmp*")); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// What killed ones left goes when it is old, and nothing else that looks like it.
func TestStale(t *testing.T) {
	dir := t.TempDir()
	old := time.Now().Add(-time.Hour)
	for name, age := range map[string]time.Time{"k.prom.tmp123": old, "k.prom.tmp7": time.Now(), "k.prom.tmp1.bak": old, "other.prom.tmp1": old} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chtimes(path, age, age)); err != nil {
			t.Fatal(err)
		}
	}
	if err := Save(filepath.Join(dir, "k.prom"), nil); err != nil {
		t.Fatal(err)
	}
	if left := must(fs.Glob(os.DirFS(dir), "*")); !slices.Equal(left, []string{"k.prom", "k.prom.tmp1.bak", "k.prom.tmp7", "other.prom.tmp1"}) {
		t.Errorf("left: %q", left)
	}
}

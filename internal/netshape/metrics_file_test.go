package netshape

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

// All that was set up is told of, whoever asks, and nothing else that lies in the
// state directory.
func TestMetricsOfMachine(t *testing.T) {
	b := newBox(t, "eth1", "wwan0", "lan0")
	b.apply(t, Desired{Interfaces: []Interface{cakeAt("9mbit")}})
	other := cakeAt("5mbit")
	other.Name = "wwan0"
	b.apply(t, Desired{Interfaces: []Interface{other}})
	b.k.remove("wwan0")
	if names := must(b.Shaped()); !slices.Equal(names, []string{"eth1", "wwan0"}) {
		t.Errorf("shaped are %q", names)
	}
	one, two := string(must(b.Metrics("eth1"))), string(must(b.Metrics("wwan0")))
	if one != two || strings.Contains(one, "lan0") || !strings.Contains(one, `interface_present{interface="wwan0"} 0`) {
		t.Errorf("%s\n---\n%s", one, two)
	}
	if text := string(must(b.Metrics("lan0"))); !strings.Contains(text, `shaped{interface="lan0"} 0`) {
		t.Error(text)
	}
	b.Boot = "boot2"
	if names := must(b.Shaped()); len(names) > 0 {
		t.Errorf("shaped in another boot: %q", names)
	}
}

// Whoever reads the file while it is written, by several, finds one whole.
func TestSaveMetrics(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "netshape.prom")
	content := func(n int) string { return strings.Repeat(strconv.Itoa(n)+"\n", 5000) }
	var all sync.WaitGroup
	for n := range 3 {
		all.Go(func() {
			for range 30 {
				if err := SaveMetrics(path, []byte(content(n))); err != nil {
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
		err := SaveMetrics(bad, nil)
		if err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("%s: %v", bad, err)
		}
		if again := SaveMetrics(bad, nil); strings.Contains(bad, "none") && again.Error() != err.Error() {
			t.Errorf("%s: first %v, then %v: it would be told each time", bad, err, again)
		}
	}
	if left := must(fs.Glob(os.DirFS(dir), "*.tmp*")); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// What killed ones left goes when it is old, and nothing else that looks like it.
func TestStaleMetrics(t *testing.T) {
	dir := t.TempDir()
	old := time.Now().Add(-time.Hour)
	for name, age := range map[string]time.Time{"k.prom.tmp123": old, "k.prom.tmp7": time.Now(), "k.prom.tmp1.bak": old, "other.prom.tmp1": old} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chtimes(path, age, age)); err != nil {
			t.Fatal(err)
		}
	}
	if err := SaveMetrics(filepath.Join(dir, "k.prom"), nil); err != nil {
		t.Fatal(err)
	}
	if left := must(fs.Glob(os.DirFS(dir), "*")); !slices.Equal(left, []string{"k.prom", "k.prom.tmp1.bak", "k.prom.tmp7", "other.prom.tmp1"}) {
		t.Errorf("left: %q", left)
	}
}

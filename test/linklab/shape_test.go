//go:build linux

package linklab

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestShapers runs the tests that need cake, fq_codel and netem, each row in a
// kernel of its own.
func TestShapers(t *testing.T) {
	wanted(t)
	dir := t.TempDir()
	const limit = 2 * time.Minute
	ctx, cancel := context.WithTimeout(t.Context(), limit+time.Minute)
	defer cancel()
	guest := build(t, dir)
	for _, row := range Shapes() {
		for _, s := range row {
			buildTests(ctx, t, filepath.Join(dir, s.Tests()), "trafficup/"+s.Package)
		}
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	got := map[string]ShapeRun{}
	for k, row := range Shapes() {
		var names []string
		for _, s := range row {
			names = append(names, s.Name)
		}
		wg.Go(func() {
			dir := filepath.Join(dir, fmt.Sprint(k))
			runs, err := boot[ShapeRun](ctx, dir, guest, []string{dir, limit.String(), strings.Join(names, ",")})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			for _, r := range runs {
				got[r.Name] = r
			}
		})
	}
	wg.Wait()
	for _, row := range Shapes() {
		for _, s := range row {
			t.Run(s.Name, func(t *testing.T) { checkShape(t, got[s.Name]) })
		}
	}
}

func checkShape(t *testing.T, r ShapeRun) {
	t.Log("\n" + r.Output)
	if r.Error != "" || !strings.HasSuffix(strings.TrimSpace(r.Output), "PASS") {
		t.Error(r.Error)
	}
	for line := range strings.Lines(r.Output) {
		// One test is for kernels without cake.
		if strings.HasPrefix(line, "--- SKIP") && !strings.Contains(line, "WhereThereIsNone") {
			t.Errorf("%s was left out", strings.TrimSpace(line))
		}
	}
}

// buildTests compiles the tests of a package to a static program, once.
func buildTests(ctx context.Context, t *testing.T, path, pkg string) {
	t.Helper()
	if _, err := os.Stat(path); err == nil {
		return
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-o", path, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the tests of %s: %v: %s", pkg, err, out)
	}
}

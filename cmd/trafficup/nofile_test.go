package main

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestOpenFilesAllow(t *testing.T) {
	for _, tc := range []struct {
		limit          uint64
		workers, paths int
		permits        int
		says           string
	}{
		{1024, 8, 2, 8, ""},
		{1024, 320, 2, 320, ""},
		{1024, 321, 2, 320, "need 1027 open files, and this process may have 1024: raise it (ulimit -n 1027"},
		{1024, 1000, 2, 320, "use --concurrency 320"},
		{1024, 1000, 1, 480, "use --concurrency 480"},
		{256, 64, 2, 64, ""},
		{64, 8, 1, 1, "--concurrency 1"},
		{0, 8, 1, 1, "--concurrency 1"},
		{math.MaxUint64, 100_000, 5, 100_000, ""},
	} {
		permits, warning := openFilesAllow(tc.limit, tc.workers, tc.paths)
		if permits != tc.permits || (warning == "") != (tc.says == "") || !strings.Contains(warning, tc.says) {
			t.Errorf("%d files, %d workers, %d paths: %d, %q", tc.limit, tc.workers, tc.paths, permits, warning)
		}
	}
	if n := openFileLimit(); n == 0 {
		t.Error("this process may open no file")
	}
}

// What is advised is enough, by either way.
func TestOpenFilesAdviceHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit, workers, paths := rapid.Uint64Range(filesKept+10, 1<<20).Draw(t, "limit"), rapid.IntRange(1, 5000).Draw(t, "workers"), rapid.IntRange(0, 9).Draw(t, "paths")
		permits, warning := openFilesAllow(limit, workers, paths)
		if permits < 1 || permits > workers || (permits < workers) != (warning != "") {
			t.Fatalf("%d, %q", permits, warning)
		}
		if warning == "" {
			return
		}
		if _, again := openFilesAllow(limit, permits, paths); again != "" {
			t.Errorf("after %q: %q", warning, again)
		}
		_, after, _ := strings.Cut(warning, "ulimit -n ")
		var raised uint64
		if _, err := fmt.Sscan(strings.TrimRight(strings.Fields(after)[0], ","), &raised); err != nil {
			t.Fatal(err)
		}
		if _, again := openFilesAllow(raised, workers, paths); again != "" {
			t.Errorf("after %q: %q", warning, again)
		}
	})
}

package main

import (
	"testing"
	"time"
)

func TestForecast(t *testing.T) {
	now := time.Date(2026, 7, 17, 1, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		elapsed time.Duration
		share   float64
		want    time.Duration // from now; -1: none
	}{
		{time.Hour, 0.5, time.Hour}, {time.Hour, 1, 0}, {time.Hour, 0.25, 3 * time.Hour},
		{time.Hour, 0, -1}, {time.Second, 0.5, -1}, {time.Hour, 1e-12, 10 * 365 * 24 * time.Hour},
	} {
		end, ok := forecast(now, c.elapsed, c.share)
		if ok != (c.want >= 0) || ok && end.Sub(now) != c.want {
			t.Errorf("%v of it after %s: %s, %v", c.share, c.elapsed, end, ok)
		}
	}
}

// Both paths are dead: the first records fail fast, each breaker opens once, and
// the run ends within --halt-after with all records accounted for.
func TestBothPathsDead(t *testing.T) {
	dir, night := t.TempDir(), writeNight(t, 500)
	sys, stdout, stderr := testSystem("upload", "--url", "http://127.0.0.1:1/", "--fallback-url", "http://127.0.0.1:2/", "--state-dir", dir,
		"--halt-after", "2s", "--breaker-threshold", "4", night)
	start := time.Now()
	if code := run(sys); code != exitWaiting {
		t.Fatalf("exit %d\n%s%s", code, stdout, stderr)
	}
	r := lastReport(t, dir)
	if r.Read != r.Halted+r.Exhausted || r.Calls > 2*(4+8) || time.Since(start) > patience {
		t.Errorf("%+v, %d calls", r.Counts, r.Calls)
	}
	if r.Verdict != "service failing" && r.Verdict != "link down" {
		t.Errorf("the verdict is %q: %s", r.Verdict, r.VerdictWhy)
	}
}

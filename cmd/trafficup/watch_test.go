package main

import (
	"strings"
	"testing"
	"time"

	"trafficup/internal/uploader"
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

func TestDryRunSaysHowLong(t *testing.T) {
	now := time.Date(2026, 7, 17, 1, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		rate     float64
		deadline time.Time
		want     string
	}{
		{20, time.Time{}, "forecast 8m20s at 20 records/s, to 01:08Z"},
		{20, now.Add(time.Hour), "51m40s before the deadline"},
		{20, now.Add(time.Minute), "7m20s after the deadline"},
		{0, now, "--rate"},
	} {
		r := result{Counts: uploader.Counts{Acked: 10_000}}
		r.expect(c.rate, now, c.deadline)
		if got := strings.Join(r.lines, "\n"); !strings.Contains(got, c.want) {
			t.Errorf("%q, want %q", got, c.want)
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

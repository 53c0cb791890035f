package main

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// steady is a run that has served records at a pace, from its first second on, of an
// input that was read as far as it is known.
func steady(begin time.Time, after time.Duration, perSecond float64, expected int64) (time.Time, progress) {
	served := int64(perSecond * after.Seconds())
	p := progress{begin: begin, serving: begin, delivered: served, served: served, records: expected, read: 100, total: 100}
	return begin.Add(after), p
}

func TestForecast(t *testing.T) {
	begin := time.Date(2026, 7, 17, 1, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		after    time.Duration
		pace     float64
		expected int64
		want     time.Duration // from now; -1: none
	}{
		"half":          {time.Hour, 10, 72_000, time.Hour},
		"all is done":   {time.Hour, 10, 36_000, -1},
		"a quarter":     {time.Hour, 10, 144_000, 3 * time.Hour},
		"too early":     {9 * time.Second, 10, 1000, -1},
		"nothing yet":   {time.Hour, 0, 1000, -1},
		"beyond belief": {time.Hour, 1. / 3600, 1 << 60, farthest},
	} {
		now, p := steady(begin, c.after, c.pace, c.expected)
		early, end, ok := p.forecast(now, 10*time.Second)
		if ok != (c.want >= 0) || ok && (end.Sub(now).Round(time.Second) != c.want || early.After(end)) {
			t.Errorf("%s: %s, %s, %v", name, early, end, ok)
		}
	}
}

// Input comes by the bufferful: what a buffer held tells how many records the rest
// has, also before and after the next one.
func TestExpectedRecords(t *testing.T) {
	const records, size, buffer = 2000, 500_000, 1 << 16
	var p progress
	for n := range records {
		p.more(min(size, int64(n*size/records/buffer+1)*buffer), size)
		if n > 260 && (p.expected() < 1900 || p.expected() > 2100) {
			t.Fatalf("%d records expected after %d", p.expected(), n+1)
		}
		if p.expected() < p.records {
			t.Fatalf("%d records expected, %d were read", p.expected(), p.records)
		}
	}
	p = progress{}
	p.more(0, 0) // a pipe
	if p.expected() != 1 {
		t.Errorf("%d expected of a pipe", p.expected())
	}
}

// A run that will be late is told of early, and again only when it is clearly worse.
func TestWatchLooks(t *testing.T) {
	begin := time.Date(2026, 7, 17, 1, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		deadline time.Duration
		pace     func(time.Duration) float64
		expected int64
		first    time.Duration // of the warnings; 0: none comes
		warnings int
	}{
		"in time":           {40 * time.Second, func(time.Duration) float64 { return 5 }, 150, 0, 0},
		"far too slow":      {40 * time.Second, func(time.Duration) float64 { return 5 }, 500, 5 * time.Second, 1},
		"a long night":      {5 * time.Hour, func(time.Duration) float64 { return 5 }, 100_000, 20 * time.Second, 1},
		"a hair too slow":   {5 * time.Hour, func(time.Duration) float64 { return 5 }, 90_300, 4 * time.Hour, 1},
		"slower and slower": {5 * time.Hour, func(d time.Duration) float64 { return 6 / (1 + d.Hours()) }, 90_000, 20 * time.Minute, 8},
		"no deadline":       {0, func(time.Duration) float64 { return 1 }, 1 << 40, 0, 0},
	} {
		end := time.Time{}
		if c.deadline > 0 {
			end = begin.Add(c.deadline)
		}
		w, n := newWatch(begin, end), 0
		for after := w.every; after < max(c.deadline, time.Minute); after += w.every {
			now, p := steady(begin, after, c.pace(after), c.expected)
			if w.look(now, p) == "" {
				continue
			}
			if n++; n == 1 && after > c.first {
				t.Errorf("%s: first warned after %s", name, after)
			}
		}
		if (n == 0) != (c.warnings == 0) || n > c.warnings {
			t.Errorf("%s: %d warnings", name, n)
		}
	}
}

// Whole runs at a rate that is held: the warning comes early and says how late it
// will be, however much of the input waits in memory.
func TestLateRunsAreWarnedOf(t *testing.T) {
	late := regexp.MustCompile(`\((\S+) records/s\) this run ends at \S+, (\S+) after its deadline`)
	for name, c := range map[string]struct {
		records  int
		rate     string
		deadline string
		queue    string
		atLeast  time.Duration // after the deadline, at the last warning; 0: no warning
	}{
		"little in memory": {2000, "5", "90s", "200", 4 * time.Minute},
		"all in memory":    {500, "5", "40s", "1000", 45 * time.Second},
		"in time":          {500, "20", "40s", "200", 0},
	} {
		t.Run(name, func(t *testing.T) {
			night := writeRecords(t, c.records, 160)
			synctest.Test(t, func(t *testing.T) {
				w := waitIn(t, alone(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusCreated) }),
					"upload", "--url", primaryURL, "--rate", c.rate, "--deadline", c.deadline, "--queue-size", c.queue, "--progress", "plain", night)
				found := late.FindAllStringSubmatch(w.out, -1)
				if len(found) > 3 || (len(found) == 0) != (c.atLeast == 0) {
					t.Fatalf("%d warnings\n%s", len(found), w.out)
				}
				if len(found) == 0 {
					return
				}
				if d, err := time.ParseDuration(found[len(found)-1][2]); err != nil || d < c.atLeast {
					t.Errorf("foretold %s after the deadline, %v", d, err)
				}
				if before, _, _ := strings.Cut(w.out, "after its deadline"); strings.Count(before, " waiting,") > 1 {
					t.Errorf("warned of late\n%s", w.out)
				}
			})
		})
	}
}

// A service that takes its time is not blamed for what the deadline cut off: no
// breaker opens, nothing is left half sent.
func TestDeadlineBlamesNobody(t *testing.T) {
	night := writeNight(t, 2000)
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		w := waitIn(t, alone(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(1500 * time.Millisecond)
			w.WriteHeader(http.StatusCreated)
		}), "upload", "--url", primaryURL, "--deadline", "40s", night)
		if w.code != exitWaiting || w.Transitions != 0 || w.Unknown != 0 || w.Acked != w.Calls || w.Acked < 180 || w.Acked+w.Deferred != w.Read {
			t.Errorf("exit %d, %d changes, %+v", w.code, w.Transitions, w.Counts)
		}
		if w.Result != "stopped: deadline reached; the rest of the input was not read" || time.Since(begin) > 40*time.Second {
			t.Errorf("%s after %s", w.Result, time.Since(begin))
		}
	})
}

// While nothing moves the progress says what waits, and for what.
func TestProgressOfAnOutage(t *testing.T) {
	night := writeNight(t, 500)
	synctest.Test(t, func(t *testing.T) {
		w := waitIn(t, alone(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusBadGateway) }),
			"upload", "--url", primaryURL, "--halt-after", "2m", "--progress", "plain", night)
		line := regexp.MustCompile(`(?m)^trafficup: 0 delivered, 0/s, [1-9]\d* waiting, 0 refused, \d+% of the input read; primary down, next probe in \d+s$`)
		if !line.MatchString(w.out) {
			t.Errorf("no line of progress\n%s", w.out)
		}
		if n := strings.Count(w.out, "trafficup: every path has been down too long"); n != 1 {
			t.Errorf("told %d times", n)
		}
		if !strings.HasSuffix(w.Result, "; the rest of the input was not read") {
			t.Error(w.Result)
		}
	})
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

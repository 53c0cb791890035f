//go:build unix

package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"trafficup/internal/redis/redistest"
)

// Two runs share one ceiling: together they stay below it, and neither starves.
func TestSharedRate(t *testing.T) {
	t.Parallel()
	const rate, each = 100, 150
	s := redistest.Start(t)
	api := newFickle(t, with(http.StatusCreated))
	begin := time.Now()
	ended := make([]lied, 2)
	var both sync.WaitGroup
	for n := range ended {
		both.Go(func() {
			ended[n] = api.upload(s.URL(), each, "--shared-rate", fmt.Sprint(rate), "--set", "redis.uploaders=2").upload(t)
		})
	}
	both.Wait()
	last := 0
	for _, d := range ended {
		d.is(t, exitOK, each, 0)
		if d.Shared.Ceiling != rate || d.Shared.Calls.OK == 0 {
			t.Errorf("%+v", d.Shared)
		}
		d.says(t, "Ceiling      of 100 calls per second shared by ")
		last = max(last, d.Shared.Uploaders)
	}
	if last != 2 {
		t.Errorf("%d uploaders knew of each other", last)
	}
	// From the start on there never were more than belong to the time that had gone
	// by, with a tenth and one lease of each.
	for n, at := range api.times {
		if may := 1.1*rate*at.Sub(begin).Seconds() + 2*rate/10 + 2; float64(n+1) > may {
			t.Fatalf("%d requests after %s", n+1, at.Sub(begin))
		}
	}
}

// Whose calls go first: the night's own before those of a replay, unless somebody
// says so; who has ended is forgotten.
func TestClassesByCommand(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	see := s.Client()
	var api *fickle
	seen := make(chan string, 1)
	api = newFickle(t, func(w http.ResponseWriter, r *http.Request, _ int) {
		seen <- classesOf(t, see.HGetAll(context.Background(), api.key("limit")).Val())
		w.WriteHeader(http.StatusUnprocessableEntity)
	})
	dir, night := t.TempDir(), writeNight(t, 1)
	for _, c := range []struct {
		command, priority, class string
	}{
		{"upload", "auto", "1"}, {"replay", "auto", "2"}, {"replay", "nightly", "1"}, {"replay", "backfill", "3"}, {"replay", "replay", "2"},
	} {
		args := []string{c.command, "--url", api.URL, "--state-dir", dir, "--redis", s.URL(), "--shared-rate", "100", "--priority", c.priority}
		if c.command == "upload" {
			args = append(args, night)
		}
		sys, stdout, stderr := testSystem(args...)
		if code := run(sys); code != exitPerson {
			t.Fatalf("%s: exit %d\n%s%s", c.command, code, stdout, stderr)
		}
		if got := <-seen; got != c.class {
			t.Errorf("%s with priority %s is of class %q, want %s", c.command, c.priority, got, c.class)
		}
		if left := classesOf(t, see.HGetAll(context.Background(), api.key("limit")).Val()); left != "" {
			t.Errorf("%s has ended and is of class %s", c.command, left)
		}
	}
}

// classesOf returns the classes of the nodes that share a ceiling.
func classesOf(t *testing.T, fields map[string]string) (all string) {
	t.Helper()
	for name, value := range fields {
		if strings.HasPrefix(name, "node ") {
			all += strings.Fields(value)[0]
		}
	}
	return all
}

// A hangup changes a ceiling in mid-run; whether there is one is for the next run.
func TestHangupChangesTheCeiling(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	dir := t.TempDir()
	conf := filepath.Join(dir, "trafficup.yaml")
	write := func(text string) {
		if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
			t.Error(err)
		}
	}
	hangups := make(chan os.Signal, 1)
	api := newFickle(t, func(w http.ResponseWriter, _ *http.Request, nth int) {
		switch nth {
		case 1:
			write("upload: {shared_rate: 500}")
			hangups <- syscall.SIGHUP
		case 150:
			write("upload: {shared_rate: 0}")
			hangups <- syscall.SIGHUP
		}
		w.WriteHeader(http.StatusCreated)
	})
	write("upload: {shared_rate: 0.5}") // more than the deadline for all
	sys, stdout, stderr := testSystem("upload", "--config", conf, "--url", api.URL, "--state-dir", dir, "--redis", s.URL(), "--rate", "200", "--deadline", "2m", writeNight(t, 200))
	sys.hangups = hangups
	if code := run(sys); code != exitOK {
		t.Fatalf("exit %d\n%s%s", code, stdout, stderr)
	}
	for _, words := range []string{"from now on: upload.shared_rate 500", "with the next run: upload.shared_rate 0"} {
		if n := strings.Count(stderr.String(), words); n != 1 {
			t.Errorf("%d times %q\n%s", n, words, stderr)
		}
	}
	if r := lastReport(t, dir); r.Acked != 200 || r.Shared.Ceiling != 500 {
		t.Errorf("%+v, %+v", r.Counts, r.Shared)
	}
}

// What is shared is in the report, by the names that others read.
func TestReportOfSharing(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	api := newFickle(t, with(http.StatusCreated))
	d := api.upload(s.URL(), 10, "--shared-rate", "1000").upload(t)
	d.is(t, exitOK, 10, 0)
	runs, err := filepath.Glob(d.dir + "/runs/*/report.json")
	if err != nil || len(runs) != 1 {
		t.Fatalf("%v, %v", runs, err)
	}
	raw, err := os.ReadFile(runs[0])
	for _, member := range []string{`"clock_skew_s":`, `"shared":{"redis_calls":{"ok":`, `"timeout":`, `"open":`, `"error":`, `"ceiling":1000`, `"uploaders":1`} {
		if err != nil || !strings.Contains(strings.ReplaceAll(strings.ReplaceAll(string(raw), " ", ""), "\n", ""), member) {
			t.Errorf("no %s in %s, %v", member, raw, err)
		}
	}
}

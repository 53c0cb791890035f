//go:build unix

package main

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"trafficup/internal/redis/redistest"
)

func TestSharedLines(t *testing.T) {
	well := sharedCalls{OK: 9}
	for name, c := range map[string]struct {
		shared *shared
		want   []string
	}{
		"nothing is shared":       {nil, nil},
		"no ceiling":              {&shared{Calls: well}, nil},
		"a ceiling":               {&shared{Calls: well, Ceiling: 50, Uploaders: 2}, []string{"ceiling of 50 calls per second shared by 2 uploaders"}},
		"Redis never there":       {&shared{Calls: sharedCalls{Timeout: 2, Open: 7}, Ceiling: 50, Uploaders: 4}, []string{"ceiling of 50 calls per second was not shared: each uploader had its part, this one 12.5 (redis.uploaders: 4)", "redis never answered"}},
		"away at the end":         {&shared{Calls: sharedCalls{OK: 3, Open: 7}, Away: "cannot be reached"}, []string{"redis away at the end: cannot be reached"}},
		"away, and back":          {&shared{Calls: sharedCalls{OK: 3, Open: 1}}, []string{"redis gave no answer for a part of the run: 1 call not made"}},
		"an answer that was late": {&shared{Calls: sharedCalls{OK: 3, Timeout: 1}}, nil},
	} {
		if got := c.shared.lines(); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// Who waited for the shared ceiling is told so, and who goes first.
func TestThrottledByTheSharedCeiling(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	api := newFickle(t, with(http.StatusCreated))
	for priority, behind := range map[string]string{
		"auto": "", "replay": ", and the calls of uploads go before those of a replay (--priority)",
		"backfill": ", and the calls of uploads and replays go before those of a back-fill (--priority)",
	} {
		d := api.upload(s.URL(), 20, "--shared-rate", "20", "--priority", priority, "--concurrency", "1").upload(t)
		d.is(t, exitOK, 20, 0)
		if want := "% of the time; --shared-rate 20 is for all uploaders together, 1 by now" + behind; d.Verdict != "throttled by us" || !strings.HasSuffix(strings.ReplaceAll(d.VerdictWhy, " %", "%"), want) {
			t.Errorf("%s: %s: %s", priority, d.Verdict, d.VerdictWhy)
		}
	}
	if d := api.upload(s.URL(), 20, "--rate", "20", "--concurrency", "1").upload(t); d.Verdict != "throttled by us" || strings.Contains(d.VerdictWhy, "shared") {
		t.Errorf("own rate: %s: %s", d.Verdict, d.VerdictWhy)
	}
}

// A run that never heard of Redis says so, and does not say that it shared.
func TestSummaryWithoutRedis(t *testing.T) {
	t.Parallel()
	api := newFickle(t, with(http.StatusCreated))
	d := api.upload("redis://127.0.0.1:1", 10, "--shared-rate", "1000", "--set", "redis.uploaders=4").upload(t)
	d.is(t, exitOK, 10, 0)
	d.says(t, "Ceiling      of 1000 calls per second was not shared: each uploader had its part, this one 250 (redis.uploaders: 4)\n")
	d.says(t, "Redis        away at the end: ")
}

// Each output of breaker says where the breakers are that it is about.
func TestBreakerTellsItsPlace(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	dir := t.TempDir()
	args := []string{"--url", "https://api.test/v1", "--state-dir", dir, "--redis", s.URL()}
	shared := slices.Concat(args, []string{"--breaker-store", "redis"})
	place := "breakers shared on " + s.URL() + ", as api.test/v1\n"
	for _, c := range []struct {
		args []string
		want string
	}{
		{slices.Concat([]string{"open", "primary", "--reason", "moves"}, shared), place},
		{slices.Concat([]string{"status"}, shared), place},
		{slices.Concat([]string{"reset", "--json"}, shared), `"thrashing":false,"store":"redis","where":"` + s.URL() + `","group":"api.test/v1"}`},
		{slices.Concat([]string{"status"}, args), "breakers of this machine, in " + dir + "/breaker.json\n"},
	} {
		sys, stdout, stderr := testSystem(slices.Concat([]string{"breaker"}, c.args)...)
		if code := run(sys); code != exitOK || !strings.Contains(stdout.String(), c.want) {
			t.Errorf("%q: exit %d\n%s%s", c.args, code, stdout, stderr)
		}
	}
}

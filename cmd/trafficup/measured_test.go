package main

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"trafficup/internal/api"
	"trafficup/internal/netpath"
	"trafficup/internal/uploader"
	"trafficup/internal/verdict"
)

// says asserts what a run said.
func (w waited) says(t *testing.T, patterns ...string) {
	t.Helper()
	for _, p := range patterns {
		if n := len(regexp.MustCompile("(?m)"+p).FindAllString(w.out, -1)); n != 1 {
			t.Errorf("%d times %q in\n%s", n, p, w.out)
		}
	}
}

// failsBetween answers with status between two times since its start, asking for
// patience if it is to, and takes everything else.
func failsBetween(from, to time.Duration, status int, patience string) http.HandlerFunc {
	start := time.Now()
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		time.Sleep(100 * time.Millisecond)
		if at := time.Since(start); at >= from && at < to {
			if patience != "" {
				w.Header().Set("Retry-After", patience)
			}
			w.WriteHeader(status)
			return
		}
		w.WriteHeader(http.StatusCreated)
	}
}

// A run says for how long it stood still and why, and the verdict is of what it
// stood still for.
func TestStandingStillIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		status    int
		patience  string
		threshold string
		verdict   string
		why       string // of the standing
	}{
		"500":                  {500, "", "3", "service failing", "breaker of primary open"},
		"503 with Retry-After": {503, "2", "3", "service failing", "breaker of primary open"},
		"429 with Retry-After": {429, "10", "30", "throttled by them", "primary asked to wait"},
	} {
		t.Run(name, func(t *testing.T) {
			night := writeNight(t, 300)
			synctest.Test(t, func(t *testing.T) {
				w := waitIn(t, alone(failsBetween(2*time.Second, 62*time.Second, c.status, c.patience)), "upload", "--url", primaryURL, "--breaker-threshold", c.threshold, night)
				w.all(t, 300)
				stood := 0.0
				for _, s := range w.Stood {
					stood += s.Seconds
				}
				if stood < 50 || stood > w.DurationS-2 || w.Stood[0].Why != c.why || w.Verdict != c.verdict {
					t.Errorf("%v of %.1f s: %v; %s: %s", stood, w.DurationS, w.Stood, w.Verdict, w.VerdictWhy)
				}
				w.says(t, `^Stood still  \d[\dms.]*s: `+c.why+`$`)
			})
		})
	}
}

// Time in which somebody held the breaker open is told, and put down to nobody's
// failures.
func TestHeldByHandIsNoFault(t *testing.T) {
	for cause, want := range map[netpath.Cause]string{
		netpath.BreakerOpen: "40 s: breaker of primary open; service failing",
		netpath.HeldOpen:    `40 s: breaker of primary held open by hand (a\x1b[2Jb); all well`,
	} {
		var r result
		figures := map[string]verdict.Figures{"primary": {Attempts: 509, Answered: 509, Failed: 9}}
		run := verdict.Run{Duration: time.Minute, Delivered: 500}
		words := r.stoodStill(netpath.Still{For: 40 * time.Second, Causes: []netpath.Cause{cause}}, []string{"primary"}, func(string) string { return "a\x1b[2Jb" }, figures, &run)
		if got := fmt.Sprintf("%g s: %s; %s", r.Stood[0].Seconds, words, verdict.Judge(figures, run).Word); got != want || r.Stood[0].Why != words {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestMaintenanceIsTold(t *testing.T) {
	night, cfg := writeNight(t, 50), writeWindows(t, `path: primary, from: "00:01", to: "00:04", closed: true`)
	synctest.Test(t, func(t *testing.T) {
		beforeWindow()
		w := waitIn(t, alone(failsBetween(0, 0, 0, "")), "upload", "--url", primaryURL, "--config", cfg, "--rate", "5", night)
		w.all(t, 50)
		if w.Verdict != "held by maintenance" || len(w.Stood) != 1 || w.Stood[0].Seconds < 179 || w.Stood[0].Seconds > 180.5 || w.Rate != 5 {
			t.Errorf("%s: %s; %v, rate %v", w.Verdict, w.VerdictWhy, w.Stood, w.Rate)
		}
		w.says(t, "^Stood still  3m0s: maintenance of primary$", "maintenance of primary has begun, to 2000-01-01T00:04Z$", "maintenance of primary is over$",
			"^Verdict +held by maintenance: on primary nothing could be sent for 3m0s of 3m")
	})
}

// Time on the fallback is told, as planned while the first path is inside a window.
func TestTimeOnTheFallbackIsTold(t *testing.T) {
	night, cfg := writeNight(t, 600), writeWindows(t, `path: primary, from: "00:01", to: "00:02"`)
	synctest.Test(t, func(t *testing.T) {
		beforeWindow()
		takes := failsBetween(0, 0, 0, "")
		w := waitIn(t, map[string]http.Handler{"primary.test": takes, "fallback.test": takes}, "upload", "--url", primaryURL, "--fallback-url", fallbackURL,
			"--config", cfg, "--rate", "5", night)
		w.all(t, 600)
		if w.PlannedS < 55 || w.PlannedS > 60.5 || w.FallbackS <= w.PlannedS || w.FallbackS > 100 {
			t.Errorf("planned %v of %v s", w.PlannedS, w.FallbackS)
		}
		w.says(t, `^Fallback +\[planned, unplanned\] +1m0s  [1-9]\d?s$`, "^Link +primary: rtt|^Link +primary: not", "^Service +fallback: ")
	})
}

// A quota that is spent is told when it happens, and at the end with what to do.
func TestASpentQuotaIsTold(t *testing.T) {
	night := writeNight(t, 300)
	synctest.Test(t, func(t *testing.T) {
		w := waitIn(t, map[string]http.Handler{"fallback.test": failsBetween(0, 0, 0, "")}, "upload", "--url", primaryURL, "--fallback-url", fallbackURL,
			"--fallback-quota", "1kB", "--halt-after", "1m", night)
		if w.code != exitWaiting || w.Acked == 0 || w.Halted == 0 {
			t.Fatalf("exit %d, %+v\n%s", w.code, w.Counts, w.out)
		}
		if p := w.Pathways[1]; !p.Spent || w.Pathways[0].Spent || !strings.HasSuffix(w.Result, "; fallback: quota of 1kB spent") {
			t.Errorf("%+v, %s", w.Pathways, w.Result)
		}
		w.says(t, "fallback: quota of 1kB spent: this run uses the path no more$", "^Stood still .*breaker of primary open, quota of fallback spent$",
			"^hint: see what is wrong with primary; fallback may carry as much again with every run")
	})
}

// A canary to a fallback that is dead does not make the verdict of a good night.
func TestADeadFallbackThatWasOnlyTried(t *testing.T) {
	night := writeNight(t, 300)
	synctest.Test(t, func(t *testing.T) {
		w := waitIn(t, alone(failsBetween(0, 0, 0, "")), "upload", "--url", primaryURL, "--fallback-url", fallbackURL, "--canary-fallback", "10%", night)
		w.all(t, 300)
		if w.Verdict != "all well" || w.Paths["fallback"] < 5 {
			t.Errorf("%s: %s, %v", w.Verdict, w.VerdictWhy, w.Paths)
		}
	})
}

// The most that --quiet can have to say leaves room for a line on stderr.
func TestTheBriefSummaryIsShort(t *testing.T) {
	r := result{
		Stood: []stood{{9, "x"}, {8, "y"}, {7, "z"}, {6, "w"}}, FallbackS: 60, Faults: make([]string, 9), Reasons: make([]reasonCount, 9),
		DeadLetters: "letters", ExitCode: exitWaiting, stopHint: "do", brief: true,
		lines: []string{"link    a: x", "service a: x", "link    b: x", "service b: x", "verdict x: y", "permits 3 at once"},
	}
	var b strings.Builder
	if r.text(&b); strings.Count(b.String(), "\n") > 19 {
		t.Errorf("%d lines\n%s", strings.Count(b.String(), "\n"), &b)
	}
}

// What is neither link nor service has a verdict, too.
func TestEveryStopHasItsVerdict(t *testing.T) {
	answers := func(status int) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
	}
	night := writeNight(t, 300)
	missing := filepath.Join(t.TempDir(), "gone.ndjson")
	for name, c := range map[string]struct {
		hosts   map[string]http.Handler
		night   string
		code    int
		verdict string
		hint    string
	}{
		"401":            {alone(answers(401).ServeHTTP), night, exitAuth, "login refused", "check the token"},
		"404":            {alone(answers(404).ServeHTTP), night, exitUsage, "records refused", ""},
		"302":            {alone(answers(302).ServeHTTP), night, exitUsage, "path misconfigured", "check the URL of the path"},
		"a missing file": {nil, missing, exitInput, "input unreadable", "see whether the file was written"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := waitIn(t, c.hosts, "upload", "--url", primaryURL, c.night)
				if w.code != c.code || w.Verdict != c.verdict {
					t.Errorf("exit %d, %s: %s\n%s", w.code, w.Verdict, w.VerdictWhy, w.out)
				}
				w.says(t, "^Verdict +"+c.verdict+": ", "^hint: "+c.hint)
			})
		})
	}
}

// What the run's own deadline cut off is no fault of the path.
func TestACutIsNoFault(t *testing.T) {
	timeout := uploader.Attempted{Path: "primary", Outcome: uploader.Outcome{Err: api.ErrTimeout, Wrote: true}}
	cut := timeout
	cut.Cut = true
	r := new(route)
	for range 9 {
		r.hear(cut)
	}
	if f := r.meter.Figures()["primary"]; f.Attempts != 9 || f.Timeouts+f.NoDial+f.Resets != 0 {
		t.Errorf("%+v", f)
	}
	if r.hear(timeout); r.meter.Figures()["primary"].Timeouts != 1 {
		t.Errorf("%+v", r.meter.Figures())
	}
}

// A proxy that is down is named, and where it comes from.
func TestADeadProxyIsNamed(t *testing.T) {
	proxy := newLiar(t, connects(""))
	dead := proxy.Addr().String()
	_ = proxy.Close()
	for _, url := range []string{"https://api.test/v1/logs", "http://api.test/v1/logs"} {
		for from, d := range map[string]lying{
			"paths.primary.proxy:":         {config: "paths: {primary: {proxy: 'http://" + dead + "'}}"},
			"the environment (HTTPS_PROXY": {env: map[string]string{"HTTPS_PROXY": "http://" + dead, "HTTP_PROXY": "http://" + dead}},
		} {
			d.url, d.records, d.args = url, 10, []string{"--max-attempts", "2", "--breaker-threshold", "100"}
			got := d.upload(t)
			if got.Verdict != "link down" || !strings.Contains(got.VerdictWhy, "through the proxy "+dead+", which refuses connections") {
				t.Errorf("%s: %s: %s", url, got.Verdict, got.VerdictWhy)
			}
			got.says(t, "hint: primary goes through the proxy "+dead+", which comes from "+from)
		}
	}
}

func TestAProxyNeedsAPort(t *testing.T) {
	sys, stdout, stderr := testSystem("config", "check", "--set", "paths.primary.proxy=foo", "--url", "https://api.test/v1")
	if code := run(sys); code != exitUsage || !strings.Contains(stdout.String()+stderr.String(), "want http://host:port") {
		t.Errorf("exit %d\n%s%s", code, stdout, stderr)
	}
}

package main

import (
	"encoding/json/v2"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// writeWindows writes a configuration with windows of maintenance.
func writeWindows(t *testing.T, windows ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "trafficup.yaml")
	text := "maintenance:\n"
	for _, w := range windows {
		text += "  - {" + w + "}\n"
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// beforeWindow is the time at which a run starts in these tests, five seconds
// before a window from 00:01; a bubble's clock begins at midnight.
func beforeWindow() time.Time {
	time.Sleep(55 * time.Second)
	return time.Now().Add(5 * time.Second)
}

// A window that begins while a run is under way: nothing starts inside, what is in
// flight is answered, and it goes on at the end.
func TestNothingStartsInAClosedWindow(t *testing.T) {
	night, cfg := writeNight(t, 100), writeWindows(t, `path: primary, from: "00:01", to: "00:04", closed: true`)
	synctest.Test(t, func(t *testing.T) {
		from := beforeWindow()
		to := from.Add(3 * time.Minute)
		var c calls
		w := waitIn(t, alone(func(w http.ResponseWriter, r *http.Request) {
			c.note(r)
			time.Sleep(900 * time.Millisecond)
			if time.Now().After(from) && time.Now().Before(to) {
				w.WriteHeader(http.StatusBadGateway) // maintenance has begun
				return
			}
			w.WriteHeader(http.StatusCreated)
		}), "upload", "--url", primaryURL, "--config", cfg, "--concurrency", "4", "--breaker-threshold", "2", night)
		w.all(t, 100)
		if n := c.between(from, to); n != 0 {
			t.Errorf("%d requests inside the window", n)
		}
		if n := c.between(time.Time{}, from); n < 16 || n == 100 {
			t.Errorf("%d requests before the window", n)
		}
		if w.Transitions != 0 || w.Retries == 0 {
			t.Errorf("%d breaker changes, %d retries: want none for what was in flight", w.Transitions, w.Retries)
		}
		if n := strings.Count(w.out, "waiting for the end of the maintenance of primary from 2000-01-01T00:01Z to 2000-01-01T00:04Z"); n != 1 {
			t.Errorf("told %d times of the wait\n%s", n, w.out)
		}
	})
}

// A Retry-After, a backoff and a breaker whose waits end inside the window are
// moved to its end.
func TestWaitsThatEndInAClosedWindow(t *testing.T) {
	cfg := writeWindows(t, `path: primary, from: "00:01", to: "00:04", closed: true`)
	for name, refuse := range map[string]func(http.ResponseWriter){
		"429":     func(w http.ResponseWriter) { w.Header().Set("Retry-After", "3"); w.WriteHeader(429) },
		"503":     func(w http.ResponseWriter) { w.Header().Set("Retry-After", "3"); w.WriteHeader(503) },
		"backoff": func(w http.ResponseWriter) { w.WriteHeader(500) },
	} {
		t.Run(name, func(t *testing.T) {
			night := writeNight(t, 8)
			synctest.Test(t, func(t *testing.T) {
				from := beforeWindow()
				var c calls
				waitIn(t, alone(func(w http.ResponseWriter, r *http.Request) {
					c.note(r)
					if time.Now().Before(from) {
						time.Sleep(time.Until(from.Add(-2 * time.Second)))
						refuse(w)
						return
					}
					w.WriteHeader(http.StatusCreated)
				}), "upload", "--url", primaryURL, "--config", cfg, "--breaker-open", "3s", "--retry-budget-min", "100", night).all(t, 8)
				if n := c.between(from, from.Add(3*time.Minute)); n != 0 {
					t.Errorf("%d requests inside the window", n)
				}
				if n := c.between(time.Time{}, from); n == 0 {
					t.Error("nothing was sent before it")
				}
				if n := c.between(from.Add(3*time.Minute), from.Add(3*time.Minute+2*time.Second)); n != 8 {
					t.Errorf("%d requests right after it, want 8", n)
				}
			})
		})
	}
}

// A window that ends too late is not waited for: the run ends and says why.
func TestClosedForTooLong(t *testing.T) {
	long, short := `path: primary, from: "00:01", to: "06:00", closed: true`, `path: primary, from: "00:01", to: "00:04", closed: true`
	for _, c := range []struct {
		name, window string
		args         []string
	}{
		{"six hours", long, nil},
		{"six hours and a deadline", long, []string{"--deadline", "60s"}},
		{"six hours, patience and a deadline", long, []string{"--deadline", "60s", "--halt-after", "12h"}},
		{"three minutes and a deadline", short, []string{"--deadline", "60s"}},
		{"three minutes, no patience", short, []string{"--halt-after", "2m"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			night, cfg := writeNight(t, 1000), writeWindows(t, c.window)
			synctest.Test(t, func(t *testing.T) {
				from := beforeWindow()
				var seen calls
				w := waitIn(t, alone(func(w http.ResponseWriter, r *http.Request) {
					seen.note(r)
					time.Sleep(500 * time.Millisecond)
					w.WriteHeader(http.StatusCreated)
				}), append([]string{"upload", "--url", primaryURL, "--config", cfg, "--json", night}, c.args...)...)
				if w.code != exitWaiting || w.letters != 0 || w.Halted == 0 || w.Acked+w.Halted != w.Read || w.Acked != int64(len(seen.times)) || w.Transitions != 0 {
					t.Errorf("exit %d, %d letters, %d changes, %+v", w.code, w.letters, w.Transitions, w.Counts)
				}
				if late := time.Since(from); late < 0 || late > 2*time.Second {
					t.Errorf("ended %s after the window began", late)
				}
				if want := "maintenance of primary from 2000-01-01T00:01Z to 2000-01-01T0"; !strings.Contains(w.Result, want) {
					t.Errorf("the result is %q, want %q", w.Result, want)
				}
				last := exitLine(t, w.out)
				if last.Code != exitWaiting || last.Error != w.Result || !strings.Contains(last.Hint, "after the maintenance") {
					t.Errorf("%+v", last)
				}
			})
		})
	}
}

// A run that starts inside a window it has the patience for sends nothing, and puts
// no record in doubt, before the end.
func TestStartInAClosedWindow(t *testing.T) {
	night, cfg := writeNight(t, 500), writeWindows(t, `path: primary, from: "00:00", to: "00:03", closed: true`)
	synctest.Test(t, func(t *testing.T) {
		end := time.Now().Add(3 * time.Minute)
		time.Sleep(10 * time.Second)
		var c calls
		w := waitIn(t, alone(func(w http.ResponseWriter, r *http.Request) {
			c.note(r)
			w.WriteHeader(http.StatusCreated)
		}), "upload", "--url", primaryURL, "--config", cfg, night)
		w.all(t, 500)
		if early, soon := c.between(time.Time{}, end), c.between(end, end.Add(5*time.Second)); early != 0 || soon != 500 {
			t.Errorf("%d requests before the end of the window, %d right after it", early, soon)
		}
	})
}

// While the one path is closed the other has to be down for as long as always to end
// the run, and the window is named beside it.
func TestClosedAndDown(t *testing.T) {
	night, cfg := writeNight(t, 100), writeWindows(t, `path: primary, from: "00:00", to: "06:00", closed: true`)
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var c calls
		hosts := alone(func(_ http.ResponseWriter, r *http.Request) { t.Error("a request by the closed path") })
		hosts["fallback.test"] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			c.note(r)
			w.WriteHeader(http.StatusBadGateway)
		})
		w := waitIn(t, hosts, "upload", "--url", primaryURL, "--fallback-url", fallbackURL, "--config", cfg, "--halt-after", "2m", night)
		if took := time.Since(begin); w.code != exitWaiting || took < 2*time.Minute || took > 3*time.Minute || w.Halted == 0 || len(c.times) == 0 {
			t.Errorf("exit %d after %s and %d calls, %+v", w.code, took, len(c.times), w.Counts)
		}
		if !strings.Contains(w.Result, "down too long (2m0s); there is maintenance of primary from") {
			t.Errorf("the result is %q", w.Result)
		}
	})
}

// exitLine returns the object that ends a run with --json that went not well.
func exitLine(t *testing.T, out string) (e struct {
	Type  string `json:"message_type"`
	Code  int    `json:"code"`
	Error string `json:"error"`
	Hint  string `json:"hint"`
}) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(out), "\n")
	i := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, `"exit_error"`) })
	if i < 0 {
		t.Fatalf("no exit_error in\n%s", out)
	}
	if err := json.Unmarshal([]byte(lines[i]), &e); err != nil {
		t.Fatal(err)
	}
	return e
}

// While one path is closed the other carries all, and no canary or probe tries the
// closed one; when both are, the earlier end is waited for.
func TestClosedPathsAmongOthers(t *testing.T) {
	night, cfg := writeNight(t, 2000), writeWindows(t,
		`path: primary, from: "00:01", to: "00:10", closed: true`, `path: fallback, from: "00:02", to: "00:04", closed: true`)
	synctest.Test(t, func(t *testing.T) {
		from := beforeWindow()
		counts := map[string]*calls{"primary.test": {}, "fallback.test": {}}
		hosts := map[string]http.Handler{}
		for host, c := range counts {
			hosts[host] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				c.note(r)
				time.Sleep(100 * time.Millisecond)
				if host == "primary.test" && time.Now().Before(from.Add(-3*time.Second)) {
					w.WriteHeader(http.StatusBadGateway) // its breaker is to be probed inside the window
					return
				}
				w.WriteHeader(http.StatusCreated)
			})
		}
		waitIn(t, hosts, "upload", "--url", primaryURL, "--fallback-url", fallbackURL, "--config", cfg, "--rate", "10", "--canary-fallback", "5%", "--failback", "5s",
			"--breaker-threshold", "2", "--breaker-open", "2s", night).all(t, 2000)
		at := func(d time.Duration) time.Time { return from.Add(d) }
		if n := counts["primary.test"].between(from, at(9*time.Minute)); n != 0 {
			t.Errorf("%d requests by the closed primary", n)
		}
		if n := counts["fallback.test"].between(at(time.Minute), at(3*time.Minute)); n != 0 {
			t.Errorf("%d requests by the closed fallback", n)
		}
		if n := counts["fallback.test"].between(from, at(time.Minute)); n < 550 {
			t.Errorf("%d requests by the fallback while it alone is open", n)
		}
		if n := counts["fallback.test"].between(at(3*time.Minute), at(3*time.Minute+10*time.Second)); n < 80 {
			t.Errorf("%d requests in ten seconds after the fallback opened", n)
		}
	})
}

// Air times of a broadcast day of thirty hours are carried as they are written, from
// either form; what is no such time needs a person. An hour that comes twice is two
// records.
func TestAirTimesAreCarriedAsTheyAre(t *testing.T) {
	good := []string{"23:59:59", "24:00:00", "24:30:00", "25:00:00", "29:59:59", "30:00:00", "01:30:00", "01:30:00"}
	bad := []string{"-01:00:00", "0:5:3", "235959", "12:60:00", "2025-03-09T02:30:00", "2026-06-30T23:59:60Z", "0000-00-00", "31/12/2025 23:00", "1735689600000"}
	lines, table := "", "spot_id,idempotency_key,title,air_time\n"
	for i, at := range slices.Concat(good, bad) {
		lines += fmt.Sprintf(`{"spot_id":"S%d","idempotency_key":"line-%06d","payload":{"title":"T","air_time":"%s"}}`+"\n", i, i, at)
		table += fmt.Sprintf("S%d,cell-%06d,T,%s\n", i, i, at)
	}
	dir := t.TempDir()
	var files []string
	for name, text := range map[string]string{"log.ndjson": lines, "log.csv": table} {
		files = append(files, filepath.Join(dir, name))
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		got := map[string]string{}
		w := waitIn(t, alone(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			mu.Lock()
			got[r.Header.Get("Idempotency-Key")] = string(body)
			mu.Unlock()
			w.WriteHeader(http.StatusCreated)
		}), append([]string{"upload", "--url", primaryURL}, files...)...)
		if w.code != exitPerson || len(got) != 2*len(good) || w.Invalid != int64(2*len(bad)) || w.letters != 2*len(bad) {
			t.Fatalf("exit %d, %d sent, %d letters, %+v\n%s", w.code, len(got), w.letters, w.Counts, w.out)
		}
		for i, at := range good {
			for _, form := range []string{"line", "cell"} {
				if body := got[fmt.Sprintf("%s-%06d", form, i)]; !strings.Contains(body, `"air_time":"`+at+`"`) {
					t.Errorf("%s %s was sent as %s", form, at, body)
				}
			}
		}
	})
}

// Whoever starts shortly after the end of the window is told that the next one is
// tomorrow's.
func TestWindowEndThatHasPassed(t *testing.T) {
	night := writeNight(t, 1)
	for _, c := range []struct {
		end    string
		start  time.Duration // since midnight
		args   []string
		warned bool
	}{
		{"05:30", 5*time.Hour + 42*time.Minute, nil, true},
		{"05:30", 5*time.Hour + 30*time.Minute, nil, true},
		{"05:30", 7*time.Hour + 29*time.Minute, nil, true},
		{"05:30", 7*time.Hour + 31*time.Minute, nil, false},
		{"05:30", 5*time.Hour + 29*time.Minute, nil, false},
		{"05:30", 5*time.Hour + 42*time.Minute, []string{"--deadline", "1h"}, false}, // that is what holds
	} {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(c.start)
			w := waitIn(t, alone(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }),
				append([]string{"upload", "--url", primaryURL, "--window-end", c.end, night}, c.args...)...)
			w.all(t, 1)
			if got := strings.Contains(w.out, "--window-end 05:30 was "); got != c.warned || got && !strings.Contains(w.out, "this run ends at 2000-01-02T05:30Z at the latest") {
				t.Errorf("%s after midnight:\n%s", c.start, w.out)
			}
		})
	}
}

// A run that its deadline ends while records wait for the rate has waited for the
// rate: the verdict says so.
func TestWaitsCutShortCount(t *testing.T) {
	night := writeNight(t, 100)
	synctest.Test(t, func(t *testing.T) {
		w := waitIn(t, alone(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }),
			"upload", "--url", primaryURL, "--rate", "0.01", "--burst", "20", "--deadline", "60s", night)
		if w.code != exitWaiting || w.Verdict != "throttled by us" {
			t.Errorf("exit %d, the verdict is %q: %s", w.code, w.Verdict, w.VerdictWhy)
		}
	})
}

// A clock that shows a time before the program was made is told of.
func TestClockBeforeTheProgramWasMade(t *testing.T) {
	defer func(s string) { made = s }(made)
	night := writeNight(t, 1)
	for when, warned := range map[string]bool{"1999-12-31T00:00:00Z": false, "2026-07-17T00:00:00Z": true, "rubbish": false} {
		made = when
		synctest.Test(t, func(t *testing.T) {
			w := waitIn(t, alone(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }), "upload", "--url", primaryURL, night)
			w.all(t, 1)
			if got := strings.Contains(w.out, "before this program was made (2026-07-17T00:00:00Z)"); got != warned {
				t.Errorf("made %s:\n%s", when, w.out)
			}
		})
	}
}

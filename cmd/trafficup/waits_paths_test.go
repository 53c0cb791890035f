package main

import (
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// after takes a while for each request before h answers.
func after(d time.Duration, h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		time.Sleep(d)
		h(w, r)
	}
}

func takes(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }

func answering(status int, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{"title":"so it is"}`)
	}
}

// What one path asks for holds up nobody who can go by another: the path is tried
// by a few, and those go on by the usual one.
func TestTrialsHoldUpNobody(t *testing.T) {
	for name, c := range map[string]struct {
		primary, fallback http.HandlerFunc
		args              []string
	}{
		"a canary is told to wait": {
			after(20*time.Millisecond, takes), answering(429, "Retry-After", "20"), []string{"--canary-fallback", "2%"},
		},
		"a canary finds no quota left": {
			after(20*time.Millisecond, takes), func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("RateLimit-Policy", `"d";q=100;w=60`)
				w.Header().Set("RateLimit", `"d";r=0;t=60`)
				takes(w, r)
			}, []string{"--canary-fallback", "2%"},
		},
		"a path that returns is told to wait": {
			nil, after(20*time.Millisecond, takes), []string{"--breaker-open", "2s", "--failback", "5s"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var calls atomic.Int64
				if c.primary == nil {
					c.primary = func(w http.ResponseWriter, r *http.Request) {
						if calls.Add(1) <= 8 {
							answering(500)(w, r)
							return
						}
						answering(429, "Retry-After", "30")(w, r)
					}
				}
				w := waitIn(t, map[string]http.Handler{"primary.test": c.primary, "fallback.test": c.fallback},
					append([]string{"upload", "--url", "http://primary.test:80/", "--fallback-url", "http://fallback.test:80/", writeNight(t, 4000)}, c.args...)...)
				// Eight at a time in 20 ms make 400 a second.
				if w.code != exitOK || w.Acked != 4000 || w.DurationS > 20 {
					t.Errorf("code %d, %d acked in %.1f s\n%s", w.code, w.Acked, w.DurationS, w.out)
				}
			})
		})
	}
}

// An outage shortly before the deadline: the breaker is tried again while there is
// time, and what is left at the end has lost nothing.
func TestOutageNearTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		w := waitIn(t, map[string]http.Handler{"primary.test": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			calls.Add(1)
			answering(500)(w, r)
		})}, "upload", "--url", "http://primary.test:80/", "--deadline", "25s", writeNight(t, 5000))
		if w.code != exitWaiting || w.Deferred+w.Exhausted > 8 || w.letters > 8 || w.DurationS < 15 || w.DurationS > 25 {
			t.Errorf("code %d in %.1f s, %d letters: %+v\n%s", w.code, w.DurationS, w.letters, w.Counts, w.out)
		}
		if n := calls.Load(); n < 10 || n > 20 {
			t.Errorf("%d calls, of which 8 opened the breaker", n)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		w := waitIn(t, map[string]http.Handler{"primary.test": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if time.Since(start) < time.Second {
				answering(500)(w, r)
				return
			}
			after(20*time.Millisecond, takes)(w, r)
		})}, "upload", "--url", "http://primary.test:80/", "--deadline", "28s", writeNight(t, 1000))
		if w.Acked < 990 {
			t.Errorf("code %d, %d acked in %.1f s\n%s", w.code, w.Acked, w.DurationS, w.out)
		}
	})
}

// A path that never took a record and refuses what another takes is at fault
// itself: nothing is condemned, and the night goes on.
func TestPathThatKnowsNothing(t *testing.T) {
	for _, status := range []int{401, 403, 404, 405, 410} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := waitIn(t, map[string]http.Handler{"primary.test": after(5*time.Millisecond, takes), "fallback.test": after(20*time.Millisecond, answering(status))},
					"upload", "--url", "http://primary.test:80/", "--fallback-url", "http://fallback.test:80/", "--canary-fallback", "20%", writeNight(t, 1000))
				if w.code != exitOK || w.Acked != 1000 {
					t.Errorf("code %d: %+v\n%s", w.code, w.Counts, w.out)
				}
			})
		})
	}
}

// However many paths there are, calls stay within records x (1 + budget) + floor.
func TestPathsShareOneBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := waitIn(t, map[string]http.Handler{"primary.test": answering(418), "fallback.test": answering(418)},
			"upload", "--url", "http://primary.test:80/", "--fallback-url", "http://fallback.test:80/", "--retry-status", "418",
			"--canary-fallback", "50%", "--deadline", "25s", writeNight(t, 40))
		if w.Calls > 54 {
			t.Errorf("%d calls for 40 records\n%s", w.Calls, w.out)
		}
	})
}

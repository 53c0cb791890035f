package main

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	goredis "github.com/redis/go-redis/v9"

	"trafficup/internal/breaker"
)

// skewed is a Redis whose clock is ahead of this machine's, which is the same to
// the program as a machine whose clock is behind.
func skewed(t *testing.T, ahead time.Duration) *goredis.Client {
	t.Helper()
	m := miniredis.RunT(t)
	m.Server().SetPreHook(func(_ *server.Peer, cmd string, _ ...string) bool {
		if cmd == "EVAL" || cmd == "EVALSHA" { // not what these do themselves: the lock is theirs then
			m.SetTime(time.Now().Add(ahead))
		}
		return false
	})
	c := goredis.NewClient(&goredis.Options{Addr: m.Addr(), DisableIdentity: true, Protocol: 2})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Machines whose clocks are apart share one state: its times are of Redis' clock,
// and one too far ahead is cut to the longest open time.
func TestTimesAreOfTheClockOfRedis(t *testing.T) {
	const hour = time.Hour
	at := func(year int) func(time.Time) time.Time {
		return func(time.Time) time.Time { return time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC) }
	}
	in := func(d time.Duration) func(time.Time) time.Time {
		return func(now time.Time) time.Time { return now.Add(d) }
	}
	for _, ahead := range []time.Duration{0, 10 * time.Minute, -10 * time.Minute} {
		for name, c := range map[string]struct {
			until   func(now time.Time) time.Time
			openMax time.Duration
			sends   bool
		}{
			"open for an hour":           {in(hour - time.Minute), hour, false},
			"was open until a moment":    {in(-time.Second), hour, true},
			"open until 2099":            {at(2099), 300 * time.Millisecond, true},
			"open until 1970":            {at(1970), hour, true},
			"Redis was set back an hour": {in(2 * hour), 300 * time.Millisecond, true},
		} {
			t.Run(name+", "+ahead.String(), func(t *testing.T) {
				t.Parallel()
				rc := skewed(t, ahead)
				api := newFickle(t, with(http.StatusCreated))
				key := api.key("breaker", "primary")
				before := kept{State: breaker.State{Phase: breaker.Open, OpenUntil: c.until(time.Now().Add(ahead).UTC()), Opens: 1, Generation: 1}}
				keep(t, rc, key, before)
				l := api.upload("redis://"+rc.Options().Addr, 10, "--breaker-open", "1ms", "--breaker-open-max", c.openMax.String())
				if !c.sends {
					l.args = append(l.args, "--halt-after", "100ms")
					l.upload(t).is(t, exitWaiting, 0, 0)
					if k := keptAt(t, rc, key); api.came() != 0 || k.Revision != 1 {
						t.Errorf("%d requests, %s", api.came(), k.raw)
					}
					return
				}
				l.upload(t).is(t, exitOK, 10, 0)
				if k := keptAt(t, rc, key); k.State.Phase != breaker.Closed || k.Revision == 1 {
					t.Errorf("in the end %s", k.raw)
				}
			})
		}
	}
}

// So it is with the file of one machine, by its own clock.
func TestTimesInTheFile(t *testing.T) {
	for _, until := range []string{"2099-01-01T00:00:00Z", "1970-01-01T00:00:00Z", time.Now().Add(2 * time.Hour).UTC().Format(time.RFC3339)} {
		t.Run(until, func(t *testing.T) {
			t.Parallel()
			api := newFickle(t, with(http.StatusCreated))
			l := lying{url: api.URL, dir: t.TempDir(), night: writeRecords(t, 10, 0), args: []string{"--breaker-store", "file", "--breaker-open", "1ms", "--breaker-open-max", "300ms"}}
			text := fmt.Sprintf(`{"v":1,"breakers":{"primary %s":{"phase":2,"open_until":%q,"opens":1,"generation":1}}}`, api.URL, until)
			file := filepath.Join(l.dir, "breaker.json")
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			d := l.upload(t)
			d.is(t, exitOK, 10, 0)
			if after, err := os.ReadFile(file); err != nil || !bytes.Contains(after, []byte(`"closed":1`)) || d.Transitions == 0 {
				t.Errorf("%d changes, %s, %v", d.Transitions, after, err)
			}
		})
	}
}

// What a machine writes is of the clock of Redis, too, which it warns of once.
func TestTripsByTheClockOfRedis(t *testing.T) {
	for _, ahead := range []time.Duration{10 * time.Minute, -10 * time.Minute} {
		c := skewed(t, ahead)
		api := newFickle(t, with(http.StatusServiceUnavailable))
		d := api.upload("redis://"+c.Options().Addr, 10, "--breaker-threshold", "2", "--breaker-open", "1m", "--breaker-open-max", "1m", "--halt-after", "300ms").upload(t)
		d.is(t, exitWaiting, 0, 0)
		now := time.Now().Add(ahead)
		if k := keptAt(t, c, api.key("breaker", "primary")); k.State.OpenUntil.Before(now) || k.State.OpenUntil.After(now.Add(time.Minute)) {
			t.Errorf("now is %s, %s", now, k.raw)
		}
		if n := strings.Count(d.stderr, "this machine's clock is 10m"); n != 1 {
			t.Errorf("warned %d times\n%s", n, d.stderr)
		}
		if s := d.ClockSkewS; s == nil || *s < ahead.Seconds()-5 || *s > ahead.Seconds()+5 {
			t.Errorf("ahead by %s, reported %v", ahead, s)
		}
	}
}

// dated answers with a Date that is ahead of our clock.
func dated(c *calls, ahead time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c.note(r)
		w.Header().Set("Date", time.Now().Add(ahead).UTC().Format(http.TimeFormat))
		w.WriteHeader(http.StatusCreated)
	}
}

// The clock of the API is the right one: ours is warned of once and said by how
// much it is off, and a maintenance window is where the right time puts it.
func TestWindowsGoByTheRightTime(t *testing.T) {
	night := writeNight(t, 300)
	for ahead, window := range map[time.Duration]string{
		10 * time.Minute:  `path: primary, from: "00:11", to: "00:14", closed: true`,
		-10 * time.Minute: `path: primary, from: "23:51", to: "23:54", closed: true`,
		0:                 `path: primary, from: "00:01", to: "00:04", closed: true`,
	} {
		t.Run(ahead.String(), func(t *testing.T) {
			cfg := writeWindows(t, window)
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				var c calls
				w := waitIn(t, alone(dated(&c, ahead)), "upload", "--url", primaryURL, "--rate", "2", "--config", cfg, night)
				w.all(t, 300)
				// By our clock it is from 00:01 to 00:04 each time; a Date leaves a
				// second in doubt.
				from, to := begin.Add(time.Minute), begin.Add(4*time.Minute)
				if before, inside, after := c.between(begin, from), c.between(from.Add(time.Second), to.Add(-time.Second)), c.between(to, to.Add(10*time.Second)); before < 100 || inside > 0 || after < 10 {
					t.Errorf("%d requests before the window, %d inside, %d right after it\n%s", before, inside, after, w.out)
				}
				if w.ClockSkewS == nil || *w.ClockSkewS < ahead.Seconds()-1 || *w.ClockSkewS > ahead.Seconds()+1 {
					t.Errorf("clock_skew_s is %v", w.ClockSkewS)
				}
				if n := strings.Count(w.out, "this machine's clock is 10m"); n != min(int(ahead.Abs()), 1) {
					t.Errorf("warned %d times\n%s", n, w.out)
				}
			})
		})
	}
}

// Without an answer nothing is known of the clock, and without Redis nothing is
// shared: the report has no such members.
func TestReportWithoutSharing(t *testing.T) {
	api := newFickle(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.Header()["Date"] = nil
		w.WriteHeader(http.StatusCreated)
	})
	d := lying{url: api.URL, records: 3}.upload(t)
	d.is(t, exitOK, 3, 0)
	raw, err := d.result.json()
	if err != nil || bytes.Contains(raw, []byte("clock_skew_s")) || bytes.Contains(raw, []byte(`"shared"`)) {
		t.Errorf("%s, %v", raw, err)
	}
}

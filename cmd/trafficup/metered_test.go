package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"trafficup/internal/disk/disktest"
	"trafficup/internal/edge"
	"trafficup/internal/uplinkstate"
)

// uplinks is the state file of a failover that runs beside a test.
type uplinks struct {
	t    *testing.T
	disk *disktest.Disk
	boot string

	mu      sync.Mutex
	active  string // guarded by mu
	metered bool   // guarded by mu
	window  bool   // guarded by mu
	dead    bool   // guarded by mu; nobody writes any more
	text    string // guarded by mu; what is written in place of a report
}

// newUplinks begins to write, with leo as the uplink that carries.
func newUplinks(t *testing.T) *uplinks {
	t.Helper()
	boot, _, err := edge.Boot()
	if err != nil {
		t.Skip(err)
	}
	u := &uplinks{t: t, disk: disktest.New(), boot: boot, active: "leo"}
	if err := u.disk.FS().MkdirAll(uplinkstate.DefaultDir, 0o755); err != nil {
		t.Fatal(err)
	}
	u.write()
	return u
}

// run runs the program beside the failover.
func (u *uplinks) run(h http.HandlerFunc, args ...string) waited {
	u.t.Helper()
	return u.runDial(h, func(ctx context.Context, network, addr string, dial dialing) (net.Conn, error) {
		return dial(ctx, network, addr)
	}, args...)
}

func (u *uplinks) runDial(h http.HandlerFunc, between func(ctx context.Context, network, addr string, dial dialing) (net.Conn, error), args ...string) waited {
	u.t.Helper()
	done := make(chan struct{})
	defer close(done)
	go func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(10 * time.Second):
				u.write()
			}
		}
	}()
	return waitOn(u.t, u.disk, alone(h), between, append([]string{"upload", "--url", primaryURL}, args...)...)
}

func (u *uplinks) write() {
	u.mu.Lock()
	defer u.mu.Unlock()
	text := u.text
	if text == "" {
		text = fmt.Sprintf(`{"version":1,"boot":%q,"at":%q,"active":%q,"metered":%t,"window":%t}`, u.boot, time.Now().UTC().Format(time.RFC3339), u.active, u.metered, u.window)
	}
	if !u.dead {
		u.disk.SetBytes(uplinkstate.DefaultPath, []byte(text))
	}
}

// after changes something when a time has passed, which is written at once.
func (u *uplinks) after(d time.Duration, change func()) {
	time.AfterFunc(d, func() {
		u.mu.Lock()
		change()
		u.mu.Unlock()
		u.write()
	})
}

// carries makes an uplink carry after a time; lte is metered.
func (u *uplinks) carries(d time.Duration, name string) {
	u.after(d, func() { u.active, u.metered = name, name == "lte" })
}

// took answers after a time, noted in c.
func took(c *calls, d time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c.note(r)
		time.Sleep(d)
		w.WriteHeader(http.StatusCreated)
	}
}

// Half of the night by the metered uplink: nothing starts then, what is in flight
// ends, and it goes on soon after; no patience but the deadline's bounds the pause.
func TestPausesOnAMeteredUplink(t *testing.T) {
	night := writeNight(t, 1000)
	synctest.Test(t, func(t *testing.T) {
		u, start := newUplinks(t), time.Now()
		from, to := start.Add(20*time.Second), start.Add(20*time.Minute)
		u.carries(from.Sub(start), "lte")
		u.carries(to.Sub(start), "leo")
		var c calls
		w := u.run(took(&c, 300*time.Millisecond), "--on-metered", "pause", "--rate", "20", "--progress", "plain", night)
		w.all(t, 1000)
		if n := c.between(from.Add(1100*time.Millisecond), to); n != 0 {
			t.Errorf("%d requests while the metered uplink carried", n)
		}
		if n := c.between(to, to.Add(3*time.Second)); n == 0 {
			t.Error("none within three seconds after it")
		}
		if w.Retries != 0 || len(w.Pauses) != 1 || w.Pauses[0].Uplink != "lte" || w.MeteredBytes > 8*1000 {
			t.Errorf("%d retries, paused %v, %d bytes", w.Retries, w.Pauses, w.MeteredBytes)
		}
		const words = "the metered uplink lte carried from 2000-01-01T00:00Z to 2000-01-01T00:20Z"
		if !strings.Contains(w.out, "% of the input read; paused: the metered uplink lte carries since 2000-01-01T00:00Z\n") {
			t.Errorf("no line of progress tells of the pause\n%s", w.out)
		}
		w.says(t, "paused: the metered uplink lte carries since 2000-01-01T00:00Z; what is in flight ends$",
			"going on after 19m[34].s: the uplink leo carries$", "^Stood still  19m[34].s: "+words+"$", "^Verdict +paused on a metered uplink: on primary nothing was sent for 19m.*; "+words)
	})
}

// A path that was down when the pause began is not taken to have been down all along.
func TestAPauseIsNoOutage(t *testing.T) {
	night := writeNight(t, 100)
	synctest.Test(t, func(t *testing.T) {
		u, start := newUplinks(t), time.Now()
		u.carries(20*time.Second, "lte")
		u.carries(10*time.Minute, "leo")
		u.run(func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(100 * time.Millisecond)
			if time.Since(start) < time.Minute {
				w.WriteHeader(http.StatusBadGateway)
				return
			}
			w.WriteHeader(http.StatusCreated)
		}, "--on-metered", "pause", "--breaker-threshold", "2", "--breaker-open", "5s", "--halt-after", "30s", "--retry-budget-min", "1000", night).all(t, 100)
	})
}

// The quota is what goes by the metered uplink, give or take what is in flight.
func TestMeteredQuota(t *testing.T) {
	night := writeNight(t, 1000)
	synctest.Test(t, func(t *testing.T) {
		u, start := newUplinks(t), time.Now()
		from, to := start.Add(10*time.Second), start.Add(10*time.Minute)
		u.carries(from.Sub(start), "lte")
		u.carries(to.Sub(start), "leo")
		var c calls
		var mu sync.Mutex
		var metered, largest int64
		w := u.run(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			c.note(r)
			mu.Lock()
			if now := time.Now(); now.After(from.Add(time.Second)) && now.Before(to) {
				metered += int64(len(body))
			}
			largest = max(largest, int64(len(body)))
			mu.Unlock()
			time.Sleep(300 * time.Millisecond)
			w.WriteHeader(http.StatusCreated)
		}, "--metered-quota", "10kB", "--rate", "20", night)
		w.all(t, 1000)
		t.Logf("%d bytes while metered, %d by the account, records of %d", metered, w.MeteredBytes, largest)
		if slack := 8 * largest; metered < 10_000-25*largest || metered > 10_000+slack || w.MeteredBytes < 10_000 || w.MeteredBytes > 10_000+slack {
			t.Errorf("%d bytes while metered, %d by the account", metered, w.MeteredBytes)
		}
		if n := c.between(to.Add(-8*time.Minute), to); n != 0 {
			t.Errorf("%d requests after the quota was spent", n)
		}
		w.says(t, "paused: the metered uplink lte carries since .*, and the quota of 10kB for it is spent; what is in flight ends$")
	})
}

// The deadline ends a pause: what was read is left to the next run, with the reason.
func TestDeadlineInAPause(t *testing.T) {
	night := writeNight(t, 1000)
	for name, before := range map[string]time.Duration{"from the start": 0, "later": 20 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u, start := newUplinks(t), time.Now()
				u.metered = before == 0
				if before > 0 {
					u.carries(before, "lte")
				}
				u.active = map[bool]string{true: "lte", false: "leo"}[before == 0]
				u.write()
				var c calls
				w := u.run(took(&c, 300*time.Millisecond), "--on-metered", "pause", "--rate", "20", "--deadline", "10m", night)
				if n := c.between(start.Add(before+1100*time.Millisecond), start.Add(time.Hour)); n != 0 || (before == 0) != (len(c.times) == 0) {
					t.Errorf("%d requests, %d of them in the pause", len(c.times), n)
				}
				if w.code != exitWaiting || w.Deferred == 0 || w.Acked != int64(len(c.times)) || w.Read != w.Acked+w.Deferred || time.Since(start) > 10*time.Minute {
					t.Errorf("exit %d after %s: %+v", w.code, time.Since(start), w.Counts)
				}
				if before == 0 && w.Read > 250 {
					t.Errorf("%d records were read", w.Read)
				}
				const words = "the metered uplink lte carried from 2000-01-01T00:00Z to 2000-01-01T00:(09|10)Z"
				w.says(t, "^Result +stopped: deadline reached; the rest of the input was not read; paused "+words+"$",
					"^ +[0-9]+  deferred: deadline reached; paused: the metered uplink lte carries since 2000-01-01T00:00Z", "^Verdict +paused on a metered uplink: .*"+words)
			})
		})
	}
}

// A state that cannot be believed is told of once and pauses nothing; who wants
// nothing of it hears nothing of its absence.
func TestUplinkThatIsNotKnown(t *testing.T) {
	night := writeNight(t, 400)
	for name, c := range map[string]struct {
		prepare func(u *uplinks)
		args    []string
		want    string // of the warning; "": none
	}{
		"nobody writes":        {func(u *uplinks) { u.dead = true }, []string{"--on-metered", "pause"}, "nobody has written it for three minutes"},
		"damaged":              {func(u *uplinks) { u.text = `{"version":1,"metered":tru` }, []string{"--on-metered", "pause"}, "damaged: "},
		"of another boot":      {func(u *uplinks) { u.boot = "other" }, nil, "of another start of the machine"},
		"missing":              {func(u *uplinks) { u.dead = true; _ = u.disk.FS().Remove(uplinkstate.DefaultPath) }, []string{"--metered-quota", "1kB"}, "state.json: no such file"},
		"missing, not wanted":  {func(u *uplinks) { u.dead = true; _ = u.disk.FS().Remove(uplinkstate.DefaultPath) }, nil, ""},
		"elsewhere":            {func(*uplinks) {}, []string{"--failover-state", "/run/other"}, "/run/other: no such file"},
		"not to be looked at":  {func(u *uplinks) { u.text = "{" }, []string{"--failover-state", "none"}, ""},
		"a run sent by hand":   {func(*uplinks) {}, []string{"--on-metered", "pause", "--class", "interactive"}, ""},
		"metered, and no harm": {func(*uplinks) {}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u := newUplinks(t)
				u.active, u.metered = "lte", true
				if name == "nobody writes" {
					u.write()
					time.Sleep(4 * time.Minute)
				}
				c.prepare(u)
				u.write()
				var seen calls
				w := u.run(took(&seen, 100*time.Millisecond), append(c.args, "--rate", "10", night)...)
				w.all(t, 400)
				const warning = "which uplink carries is not known"
				if n := strings.Count(w.out, warning); c.want == "" && n != 0 || c.want != "" && n != 1 {
					t.Errorf("%d warnings\n%s", n, w.out)
				}
				if c.want != "" && !strings.Contains(w.out, c.want) {
					t.Errorf("no %q in\n%s", c.want, w.out)
				}
				if len(w.Pauses) != 0 {
					t.Errorf("paused %v", w.Pauses)
				}
			})
		})
	}
}

// A failover that dies while it is paused ends the pause three minutes later.
func TestFailoverDiesInAPause(t *testing.T) {
	night := writeNight(t, 50)
	synctest.Test(t, func(t *testing.T) {
		u, start := newUplinks(t), time.Now()
		u.active, u.metered = "lte", true
		u.write()
		u.after(5*time.Minute, func() { u.dead = true })
		var c calls
		u.run(took(&c, 100*time.Millisecond), "--on-metered", "pause", night).all(t, 50)
		if first := c.times[0].Sub(start); first < 7*time.Minute+45*time.Second || first > 8*time.Minute+5*time.Second {
			t.Errorf("the first request came after %s", first)
		}
	})
}

func writeConfig(t *testing.T, text string) string {
	path := filepath.Join(t.TempDir(), "trafficup.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// When another uplink carries nothing is sent on connections of the one before; those
// of a path that is bound to an interface stay.
func TestASwitchLeavesConnections(t *testing.T) {
	for name, c := range map[string]struct {
		config string
		fresh  bool
	}{
		"as the routes say": {"", true},
		"bound to a source": {"paths: {primary: {source: 192.0.2.7}}\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			night, cfg := writeNight(t, 300), writeConfig(t, c.config)
			synctest.Test(t, func(t *testing.T) {
				u, start := newUplinks(t), time.Now()
				u.carries(10*time.Second, "lte")
				u.carries(20*time.Second, "leo")
				var mu sync.Mutex
				var dials []time.Duration
				var seen calls
				w := u.runDial(took(&seen, 100*time.Millisecond), func(ctx context.Context, network, addr string, dial dialing) (net.Conn, error) {
					mu.Lock()
					dials = append(dials, time.Since(start).Truncate(time.Second))
					mu.Unlock()
					return dial(ctx, network, addr)
				}, "--config", cfg, "--rate", "10", night)
				w.all(t, 300)
				for _, at := range []time.Duration{10 * time.Second, 20 * time.Second} {
					if got := slices.ContainsFunc(dials, func(d time.Duration) bool { return d == at || d == at+time.Second }); got != c.fresh {
						t.Errorf("new connections after %s: %v, of %v", at, got, dials)
					}
				}
				if w.Retries != 0 {
					t.Errorf("%d retries", w.Retries)
				}
			})
		})
	}
}

// In a window of maintenance nothing is held; it is told when it begins and ends, and
// an outage meanwhile is called expected.
func TestUplinkInMaintenance(t *testing.T) {
	night := writeNight(t, 300)
	synctest.Test(t, func(t *testing.T) {
		u, start := newUplinks(t), time.Now()
		from, to := 10*time.Second, 70*time.Second
		u.after(from, func() { u.window = true })
		u.after(to, func() { u.window = false })
		var c calls
		w := u.runDial(took(&c, 100*time.Millisecond), func(ctx context.Context, network, addr string, dial dialing) (net.Conn, error) {
			if at := time.Since(start); at >= from && at < to {
				return nil, fmt.Errorf("dial: %w", context.DeadlineExceeded)
			}
			conn, err := dial(ctx, network, addr)
			if left := from - time.Since(start); err == nil && left > 0 {
				time.AfterFunc(left, func() { _ = conn.Close() })
			}
			return conn, err
		}, "--rate", "10", "--breaker-open", "5s", "--breaker-open-max", "10s", night)
		w.says(t, "an uplink is in maintenance: an outage now is expected$", "the maintenance of the uplink is over$",
			"^Verdict +link down: .*; an uplink was in maintenance from 2000-01-01T00:00Z to 2000-01-01T00:01Z: that was expected")
	})
}

// Settings that cannot be meant together are refused, each with its place.
func TestMeteredSettings(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"--on-metered stop", "upload.on_metered: \"stop\": one of send, pause"},
		{"--on-metered pause --metered-quota 5MB", "upload.metered_quota: upload.on_metered is pause"},
		{"--metered-quota 5", "upload.metered_quota: \"5\": write a size with its unit"},
		{"--on-metered pause --failover-state none", "upload.on_metered: needs upload.failover_state"},
		{"--metered-quota 5MB --failover-state none", "upload.metered_quota: needs upload.failover_state"},
		{"--failover-state=", "upload.failover_state: is empty"},
	} {
		t.Run(c.args, func(t *testing.T) {
			night := writeNight(t, 1)
			synctest.Test(t, func(t *testing.T) {
				w := waitIn(t, alone(func(http.ResponseWriter, *http.Request) { t.Error("a request") }), append([]string{"upload", "--url", primaryURL, night}, strings.Fields(c.args)...)...)
				if w.code != exitUsage || !strings.Contains(w.out, c.want) {
					t.Errorf("exit %d, want %q in\n%s", w.code, c.want, w.out)
				}
			})
		})
	}
}

// status tells which uplink carries, and what that means for an upload.
func TestStatusOfAMeteredUplink(t *testing.T) {
	for _, c := range []struct {
		args   []string
		change func(u *uplinks)
		want   string
	}{
		{nil, func(*uplinks) {}, "\nUplink        the uplink leo carries\n"},
		{[]string{"--set", "upload.on_metered=pause"}, func(*uplinks) {}, "\nUplink        the uplink leo carries\n"},
		{[]string{"--set", "upload.on_metered=pause"}, func(u *uplinks) { u.active, u.metered = "lte", true },
			"\nUplink        the metered uplink lte carries; uploads are paused, but for a few records sent by hand\n"},
		{[]string{"--set", "upload.metered_quota=5MB"}, func(u *uplinks) { u.active, u.metered, u.window = "lte", true, true },
			"\nUplink        the metered uplink lte carries; an upload may send 5MB by it; an uplink is in maintenance\n"},
		{[]string{"--set", "upload.on_metered=pause"}, func(u *uplinks) { u.boot = "other" }, "warning: which uplink carries is not known"},
		{[]string{"--json"}, func(u *uplinks) { u.active, u.metered = "lte", true }, `"uplink":{"active":"lte","metered":true,"window":false,"bulk_pauses":false}`},
		{[]string{"--set", "upload.failover_state=none"}, func(*uplinks) {}, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			u := newUplinks(t)
			c.change(u)
			u.write()
			var out strings.Builder
			code := run(system{
				args: append([]string{"status", "--state-dir", "/state"}, c.args...), stdout: &out, stderr: &out, fs: u.disk.FS(),
				soft: t.Context(), hard: t.Context(), signal: new(atomic.Int32), graceful: new(atomic.Bool),
			})
			if code != exitOK || !strings.Contains(out.String(), c.want) || c.want == "" && strings.Contains(out.String(), "plink") {
				t.Errorf("%v: exit %d, want %q in\n%s", c.args, code, c.want, out.String())
			}
		})
	}
}

// Who tells of a file that cannot be believed does not wait for a line of progress,
// which waits for what holds the run.
func TestProgressBesideAStaleFile(t *testing.T) {
	var said strings.Builder
	u := &ui{stderr: &said}
	k := &carrier{u: u}
	asked := make(chan struct{})
	u.paused = func() string {
		close(asked)
		return k.words()
	}
	var both sync.WaitGroup
	k.look = func() (uplinkstate.Uplink, bool) {
		both.Go(u.tick)
		<-asked
		u.warn(uplinkstate.ErrStale.Error())
		return uplinkstate.Uplink{}, false
	}
	both.Go(func() { k.Held(time.Now()) })
	done := make(chan struct{})
	go func() { both.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("each waits for the other")
	}
	if text := said.String(); !strings.Contains(text, uplinkstate.ErrStale.Error()) || strings.Count(text, "trafficup: ") != 2 {
		t.Errorf("said %q", text)
	}
}

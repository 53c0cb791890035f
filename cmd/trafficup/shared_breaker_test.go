//go:build unix

package main

import (
	"context"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"trafficup/internal/breaker"
	"trafficup/internal/redis/redistest"
)

// A probe that is never answered ends with its time; the next one finds the server
// well, and all is delivered within two open times.
func TestLostProbeIsNotTheLast(t *testing.T) {
	const open = 30 * time.Second
	night := writeNight(t, 100)
	synctest.Test(t, func(t *testing.T) {
		var c calls
		var mu sync.Mutex
		var lost, taken time.Time // guarded by mu
		begin := time.Now()
		w := waitIn(t, alone(func(w http.ResponseWriter, r *http.Request) {
			c.note(r)
			mu.Lock()
			probe := lost.IsZero()
			mu.Unlock()
			switch {
			case time.Since(begin) < open/2:
				w.WriteHeader(http.StatusServiceUnavailable)
			case probe:
				<-r.Context().Done()
				mu.Lock()
				lost = time.Now()
				mu.Unlock()
			default:
				mu.Lock()
				if taken.IsZero() {
					taken = time.Now()
				}
				mu.Unlock()
				w.WriteHeader(http.StatusCreated)
			}
		}), "upload", "--url", primaryURL, "--breaker-threshold", "3", "--breaker-open", open.String(), "--request-timeout", "5s", "--halt-after", "10m", night)
		w.all(t, 100)
		if lost.IsZero() || taken.Sub(lost) > 2*open {
			t.Errorf("lost at %s, the next one %s later", lost, taken.Sub(lost))
		}
	})
}

// A machine dies in its probe: its slot is free again when its time is over, for
// whoever comes.
func TestKilledProbeGivesItsSlotBack(t *testing.T) {
	for _, store := range []string{"file", "redis"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			calmly(t, func(s *scene) {
				api := newFickle(t, with(http.StatusServiceUnavailable))
				l := api.upload(s.server.URL(), 20, "--breaker-store", store, "--breaker-threshold", "2", "--breaker-open", "1s", "--breaker-open-max", "1s",
					"--connect-timeout", "500ms", "--request-timeout", "1s")
				first := l
				first.args = append(l.args, "--halt-after", "100ms")
				d := s.ends(first, exitWaiting, 0)
				probe := make(chan bool, 100)
				api.turns(func(_ http.ResponseWriter, r *http.Request, _ int) {
					probe <- true
					<-r.Context().Done()
				})
				next := lying{dir: d.dir, night: d.night, url: l.url, args: l.args}
				if store == "redis" { // another machine
					next.dir, next.night = t.TempDir(), writeRecords(t, 20, 0)
				}
				p := startSubprocess(t, append(append([]string{"upload", "--url", api.URL, "--state-dir", next.dir, "--concurrency", "4"}, l.args...), next.night)...)
				select {
				case <-probe:
				case <-time.After(patience):
					t.Fatalf("no probe came\n%s", &p.stderr)
				}
				p.signal(syscall.SIGKILL)
				<-p.ended
				api.turns(with(http.StatusCreated))
				if d := s.ends(next, exitOK, 20); d.Calls > 20 {
					s.Errorf("%d calls for 20 records", d.Calls)
				}
			})
		})
	}
}

// Whoever starts while the breaker is open sends nothing, and neither lengthens nor
// shortens its time; when that is over, one probe goes.
func TestStartsLeaveAnOpenBreakerAsItIs(t *testing.T) {
	t.Parallel()
	calmly(t, func(s *scene) {
		api := newFickle(t, with(http.StatusServiceUnavailable))
		l := api.upload(s.server.URL(), 10, "--breaker-threshold", "2", "--breaker-open", "1h", "--breaker-open-max", "1h", "--halt-after", "100ms")
		s.ends(l, exitWaiting, 0)
		key := api.key("breaker", "primary")
		open, sent := keptAt(t, s.redis, key), api.came()
		if open.State.Phase != breaker.Open || sent < 2 || sent > 2+8 {
			s.Errorf("%d requests, %s", sent, open.raw)
		}
		for range 5 {
			if d := s.ends(l, exitWaiting, 0); d.Halted != 10 {
				s.Errorf("%+v", d.Counts)
			}
		}
		if now := keptAt(t, s.redis, key); now.raw != open.raw || api.came() != sent {
			s.Errorf("%d more requests, and the state is\n%s, was\n%s", api.came()-sent, now.raw, open.raw)
		}
		over := func() {
			k := keptAt(t, s.redis, key)
			k.State.OpenUntil = redisClock(t, s.redis).Add(-time.Second)
			keep(t, s.redis, key, k)
		}
		over()
		s.ends(l, exitWaiting, 0)
		if k := keptAt(t, s.redis, key); api.came() != sent+1 || k.State.Phase != breaker.Open || k.State.OpenUntil.Before(redisClock(t, s.redis)) {
			s.Errorf("%d probes, %s", api.came()-sent, k.raw)
		}
		api.turns(with(http.StatusCreated))
		over()
		s.ends(l, exitOK, 10)
		if k := keptAt(t, s.redis, key); k.State.Phase != breaker.Closed {
			s.Errorf("in the end %s", k.raw)
		}
	})
}

// One API, one breaker for all machines; another API and another path have their
// own.
func TestWhoSharesABreaker(t *testing.T) {
	t.Parallel()
	calmly(t, func(s *scene) {
		down, fallback, other := newFickle(t, with(http.StatusServiceUnavailable)), newFickle(t, with(http.StatusCreated)), newFickle(t, with(http.StatusCreated))
		hour := []string{"--breaker-threshold", "2", "--breaker-open", "1h", "--breaker-open-max", "1h", "--halt-after", "100ms"}
		s.ends(down.upload(s.server.URL(), 20, append(hour, "--fallback-url", fallback.URL, "--canary", "0%")...), exitOK, 20)
		sent := down.came()
		if k := keptAt(t, s.redis, down.key("breaker", "primary")); k.State.Phase != breaker.Open || fallback.came() != 20 {
			s.Errorf("%d requests by the fallback, primary is %s", fallback.came(), k.raw)
		}
		if k := keptAt(t, s.redis, down.key("breaker", "fallback")); k.State.Phase != breaker.Closed {
			s.Errorf("fallback is %s", k.raw)
		}
		if d := s.ends(other.upload(s.server.URL(), 20, hour...), exitOK, 20); d.Transitions != 0 {
			s.Errorf("%d changes of the other API's breaker", d.Transitions)
		}
		s.ends(down.upload(s.server.URL(), 20, hour...), exitWaiting, 0)
		if down.came() != sent {
			s.Errorf("%d requests by the next machine", down.came()-sent)
		}
	})
}

// A machine without a route, or whose packets are all lost as those to its targets
// are, keeps what it finds to itself: the others send on.
func TestOneBadUplinkIsNobodyElses(t *testing.T) {
	noRoute := func(_ context.Context, network, _ string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ENETUNREACH}
	}
	lost := func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	for _, c := range []struct {
		name, targets string
		dial          dialer
		why           string // "": nobody knows that it is the machine
	}{
		{"no route", "", noRoute, "primary: no network, no route or no name lookup on this machine"},
		{"targets that nobody answers", "[\"192.0.2.1:53\", \"192.0.2.2:53\"]", lost, "2 of 2 targets cannot be reached"},
		{"nothing to tell by", "", lost, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			calmly(t, func(s *scene) {
				api := newFickle(t, with(http.StatusCreated))
				a := api.upload(s.server.URL(), 20, "--breaker-threshold", "2", "--breaker-open", "1h", "--breaker-open-max", "1h", "--connect-timeout", "200ms",
					"--halt-after", "3s", "--set", "redis.uplink_targets="+c.targets)
				a.dial = c.dial
				b := api.upload(s.server.URL(), 150, "--rate", "50")
				if c.why == "" {
					b.args = append(b.args, "--breaker-open-max", "1h", "--halt-after", "100ms")
				}
				var both sync.WaitGroup
				both.Go(func() {
					d := s.ends(a, exitWaiting, 0)
					if d.Halted != 20 || d.Shared.Uplink != c.why || (c.why != "") != strings.Contains(d.stderr, "uplink is bad: "+c.why+"; its breakers stay its own") {
						s.Errorf("uplink %q, %+v\n%s", d.Shared.Uplink, d.Counts, d.stderr)
					}
				})
				if c.why == "" { // the breaker is for all
					both.Wait()
					s.ends(b, exitWaiting, 0)
					return
				}
				if d := s.ends(b, exitOK, 150); d.Transitions != 0 {
					s.Errorf("%d changes", d.Transitions)
				}
				both.Wait()
				if k := keptAt(t, s.redis, api.key("breaker", "primary")); k.raw != "" {
					s.Errorf("shared is %s", k.raw)
				}
			})
		})
	}
}

// A machine that fails while others get through, whyever, opens its own breaker and
// none else's.
func TestFailsAlone(t *testing.T) {
	t.Parallel()
	calmly(t, func(s *scene) {
		refused := 0
		api := newFickle(t, func(w http.ResponseWriter, r *http.Request, _ int) {
			if r.Header.Get("X-Who") != "a" {
				w.WriteHeader(http.StatusCreated)
				return
			}
			refused++ // one at a time
			w.WriteHeader(http.StatusServiceUnavailable)
		})
		b := api.upload(s.server.URL(), 300, "--rate", "100")
		a := api.upload(s.server.URL(), 30, "--concurrency", "1", "--breaker-threshold", "3", "--breaker-open", "1h", "--breaker-open-max", "1h", "--halt-after", "500ms")
		a.config = "api: {headers: {X-Who: a}}"
		var both sync.WaitGroup
		both.Go(func() { s.ends(b, exitOK, 300) })
		redistest.Wait(t, "the other machine to be at work", func() bool { return api.came() > 5 })
		if d := s.ends(a, exitWaiting, 0); d.letters != 0 || refused < 3 || refused > 8 {
			s.Errorf("%d calls, %d letters\n%s", refused, d.letters, d.stderr)
		}
		both.Wait()
		if k := keptAt(t, s.redis, api.key("breaker", "primary")); k.State.Phase != breaker.Closed || k.State.Transitions.Open != 0 {
			s.Errorf("shared is %s", k.raw)
		}
	})
}

// A server that is down costs no record its attempts: the run ends in time with its
// own code, and the next one sends all.
func TestDownForTheWholeRun(t *testing.T) {
	for _, store := range []string{"file", "redis"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			calmly(t, func(s *scene) {
				api := newFickle(t, with(http.StatusServiceUnavailable))
				l := api.upload(s.server.URL(), 1000, "--breaker-store", store, "--breaker-open", "1h", "--breaker-open-max", "1h", "--deadline", "2s")
				d := s.ends(l, exitWaiting, 0)
				if sent := api.came(); d.Halted == 0 || d.Halted != d.Read || sent < 8 || sent > 8+8+10 {
					s.Errorf("%d requests, %+v", sent, d.Counts)
				}
				config := filepath.Join(d.dir, "trafficup.yaml")
				sys, stdout, stderr := testSystem("breaker", "reset", "primary", "--config", config, "--state-dir", d.dir, "--url", api.URL, "--set", "breaker.store="+store, "--set", "redis.url="+s.server.URL())
				if code := run(sys); code != exitOK {
					s.Errorf("reset: exit %d\n%s%s", code, stdout, stderr)
				}
				api.turns(with(http.StatusCreated))
				next := d.again()
				next.args = append(l.args, "--deadline", "1m")
				s.ends(next, exitOK, 1000)
				if len(api.keys) != 1000 {
					s.Errorf("%d keys came", len(api.keys))
				}
			})
		})
	}
}

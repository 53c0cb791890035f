package uplink

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is the network beyond the uplink.
type world struct {
	mu    sync.Mutex
	down  map[string]bool // those who do not answer
	dials []time.Duration // since start
	start time.Time
}

func (w *world) set(addr string, down bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down[addr] = down
}

func (w *world) dialled() []time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.dials)
}

func (w *world) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	w.mu.Lock()
	w.dials = append(w.dials, time.Since(w.start))
	down := w.down[addr]
	w.mu.Unlock()
	if network != "tcp" {
		return nil, errors.New("not TCP")
	}
	if down {
		<-ctx.Done()
		return nil, &net.OpError{Op: "dial", Err: ctx.Err()}
	}
	time.Sleep(50 * time.Millisecond)
	if addr == "refuses:1" {
		return nil, &net.OpError{Op: "dial", Err: fmt.Errorf("connect: %w", syscall.ECONNREFUSED)}
	}
	a, b := net.Pipe()
	return a, b.Close()
}

func newWorld(down ...string) *world {
	w := &world{down: make(map[string]bool), start: time.Now()}
	for _, d := range down {
		w.down[d] = true
	}
	return w
}

func wantStanding(t *testing.T, w *Watch, want Standing) {
	t.Helper()
	synctest.Wait()
	s, why := w.Judge(time.Now(), "primary")
	if s != want || (why != "") != (s != Well) {
		t.Errorf("standing %d, %q, want %d", s, why, want)
	}
	if _, bad := w.Bad(time.Now()); bad != (want != Well) {
		t.Errorf("bad: %v", bad)
	}
}

func TestTargets(t *testing.T) {
	for name, tt := range map[string]struct {
		targets []string
		down    []string
		want    Standing
		takes   time.Duration
	}{
		"all reached":               {[]string{"a:1", "b:1", "c:1"}, nil, Well, 50 * time.Millisecond},
		"half reached, not awaited": {[]string{"a:1", "b:1"}, []string{"a:1"}, Well, 50 * time.Millisecond},
		"refused is reached":        {[]string{"a:1", "refuses:1"}, []string{"a:1"}, Well, 50 * time.Millisecond},
		"most not reached":          {[]string{"a:1", "b:1", "c:1"}, []string{"a:1", "c:1"}, Bad, TryTimeout},
		"none reached":              {[]string{"a:1", "b:1"}, []string{"a:1", "b:1"}, Bad, TryTimeout},
	} {
		synctest.Test(t, func(t *testing.T) {
			t.Log(name)
			net := newWorld(tt.down...)
			w := New(Config{Targets: tt.targets, Dial: net.dial})
			defer w.Close()
			w.Saw(time.Now(), Attempt{Path: "primary", Answered: true})
			wantStanding(t, w, Well)
			if len(net.dialled()) != 0 {
				t.Error("tried without need")
			}
			w.Saw(time.Now(), Attempt{Path: "primary"})
			wantStanding(t, w, Unsure)
			time.Sleep(tt.takes - time.Nanosecond)
			wantStanding(t, w, Unsure)
			time.Sleep(time.Nanosecond)
			wantStanding(t, w, tt.want)
		})
	}
}

func TestTargetsAreTriedOnWhileBad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newWorld("a:1", "b:1")
		w := New(Config{Targets: []string{"a:1", "b:1"}, Dial: net.dial})
		defer w.Close()
		w.Saw(time.Now(), Attempt{Path: "primary"})
		time.Sleep(8 * time.Second)
		wantStanding(t, w, Bad)
		w.Saw(time.Now(), Attempt{Path: "primary", Answered: true})
		wantStanding(t, w, Bad) // one lucky answer
		net.set("b:1", false)
		time.Sleep(2 * time.Second)
		wantStanding(t, w, Bad) // it is being tried
		time.Sleep(50 * time.Millisecond)
		wantStanding(t, w, Well)
		time.Sleep(time.Hour)
		s := time.Second
		if want := []time.Duration{0, 0, 5 * s, 5 * s, 10 * s, 10 * s}; !slices.Equal(net.dialled(), want) {
			t.Errorf("dials at %v, want %v", net.dialled(), want)
		}
	})
}

func TestTargetsAreTriedAtMostEveryFiveSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newWorld()
		w := New(Config{Targets: []string{"a:1", "b:1"}, Dial: net.dial})
		defer w.Close()
		for range 120 { // the server is down for a minute
			w.Saw(time.Now(), Attempt{Path: "primary"})
			time.Sleep(500 * time.Millisecond)
		}
		if n := len(net.dialled()) / 2; n != 12 {
			t.Errorf("%d tries", n)
		}
		wantStanding(t, w, Well)
	})
}

func TestTooFewTargets(t *testing.T) {
	for _, targets := range [][]string{nil, {"a:1"}} {
		synctest.Test(t, func(t *testing.T) { // a goroutine left would hang the bubble
			net := newWorld("a:1")
			w := New(Config{Targets: targets, Dial: net.dial})
			w.Saw(time.Now(), Attempt{Path: "primary"})
			wantStanding(t, w, Well)
			if len(net.dialled()) > 0 {
				t.Error("tried")
			}
		})
	}
}

func TestCloseInMidTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newWorld("a:1", "b:1")
		w := New(Config{Targets: []string{"a:1", "b:1"}, Dial: net.dial, Notify: func(why string) { t.Error(why) }})
		w.Saw(time.Now(), Attempt{Path: "primary"})
		wantStanding(t, w, Unsure)
		closing := time.Now()
		w.Close()
		w.Close()
		if time.Since(closing) != 0 {
			t.Error("Close waits for the time limit")
		}
		for range 3 {
			time.Sleep(time.Minute)
			w.Saw(time.Now(), Attempt{Path: "primary"})
			wantStanding(t, w, Well)
		}
	})
}

func TestEachPathHasItsOwnFaults(t *testing.T) {
	w := New(Config{})
	w.Saw(t0, Attempt{Path: "primary", Own: true})
	w.Saw(t0, Attempt{Path: "fallback", Answered: true})
	if s, why := w.Judge(t0, "primary"); s != Bad || why != "primary: no network, no route or no name lookup on this machine" {
		t.Errorf("primary: %v, %q", s, why)
	}
	if s, why := w.Judge(t0, "fallback"); s != Well || why != "" {
		t.Errorf("fallback: %v, %q", s, why)
	}
	if why, bad := w.Bad(t0); !bad || why != "primary: no network, no route or no name lookup on this machine" {
		t.Errorf("%v, %q", bad, why)
	}
	w.Saw(t0, Attempt{Path: "primary", Answered: true})
	if why, bad := w.Bad(t0); bad || why != "" {
		t.Errorf("%v, %q", bad, why)
	}
}

// On real sockets: a listener is reached, and so is a port where nobody listens.
func TestRealTargets(t *testing.T) {
	var addrs []string
	for _, open := range []bool{true, false} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if addrs = append(addrs, l.Addr().String()); !open {
			l.Close()
		}
	}
	w := New(Config{Targets: addrs})
	defer w.Close()
	for _, addr := range addrs {
		if _, err := Try(t.Context(), w.cfg.Dial, addr); err != nil {
			t.Errorf("%s not reached: %v", addr, err)
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Try(gone, w.cfg.Dial, addrs[0]); err == nil {
		t.Error("reached without a network")
	}
}

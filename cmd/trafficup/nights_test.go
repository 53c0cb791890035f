package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"trafficup/internal/disk/disktest"
)

var (
	nightCount = flag.Int("nights", 300, "how many random nights are simulated")
	nightSeed  = flag.Uint64("nights.seed", 1, "of the first night")
	nightTold  = flag.Bool("nights.story", false, "tell the story of every night")
)

// Nights that went wrong once, and why.
var knownNights = map[string]uint64{
	"the ledger's directory was not durable":             4,
	"a letter that was not written counted":              2,
	"applied, not answered, and said to be exhausted":    9,
	"sent by an earlier run, withdrawn by this one":      69,
	"tried in vain, mended, and sent under the same key": 111,
}

// Random nights, from the command line to the server and the disk: runs that are
// killed, lose power, are stopped, find the disk full, links that flap, servers
// that fail, lose answers and throttle, logins that expire, clocks that jump.
// After each night nothing is lost, nothing was doubled, and every number is true.
func TestNights(t *testing.T) {
	start := time.Now()
	const shards = 2
	if raceDetector {
		*nightCount = min(*nightCount, 40) // they take ten times as long
	}
	t.Run("random", func(t *testing.T) {
		for shard := range shards {
			t.Run(fmt.Sprint("shard", shard), func(t *testing.T) {
				t.Parallel()
				for n := shard; n < *nightCount && !t.Failed(); n += shards {
					simulate(t, *nightSeed+uint64(n))
				}
			})
		}
	})
	for name, seed := range knownNights {
		t.Run(name, func(t *testing.T) { simulate(t, seed) })
	}
	t.Logf("%d nights, %.0f a second", *nightCount, float64(*nightCount)/time.Since(start).Seconds())
}

// simulate plays one night and tells its story when it went wrong.
func simulate(t *testing.T, seed uint64) {
	t.Helper()
	w := newWorld(t, seed)
	for n := range 2 + w.r.IntN(5) {
		if n > 0 && w.r.IntN(6) == 0 {
			w.mend(t)
		}
		w.play(t, w.incident(n))
	}
	w.settle(t)
	w.check(t)
	if len(w.wrong) > 0 {
		t.Errorf("night %d:\n  %s\n\nits story:\n%s\nrepeat it: make nights N=1 SEED=%d", seed, strings.Join(w.wrong, "\n  "), &w.story, seed)
	} else if *nightTold {
		t.Logf("night %d:\n%s", seed, &w.story)
	}
}

// incident is what happens to one run.
type incident struct {
	name    string
	args    []string
	at      time.Duration  // when the signal or the kill comes; 0: never
	signal  syscall.Signal // SIGKILL: the process is gone
	op      int64          // disk operation at which fault strikes; 0: never
	fault   error          // nil: the process is killed there
	torn    bool           // half of that write happens
	power   bool           // a kill takes the disk's cache with it
	room    int64          // bytes left on the disk; 0: enough
	flaps   []flap
	offset  time.Duration // the clock jumps before it
	healthy bool          // the link is fine
}

// flap is a time during which a link is down, since the run began.
type flap struct {
	host     string
	from, to time.Duration
}

// incident draws what happens to the n-th run of the night.
func (w *world) incident(n int) incident {
	r := w.r
	i := incident{name: "clean", args: w.command(n)}
	// Most of a run is its beginning: squares come early.
	early := func(n int64) int64 { u := r.Float64(); return 1 + int64(u*u*float64(n)) }
	switch r.IntN(10) {
	case 0, 1, 2:
		i.name, i.signal, i.at = "kill", syscall.SIGKILL, time.Duration(early(int64(10*time.Second)))
	case 3, 4:
		i.name, i.op, i.torn = "kill at the disk", early(150), r.IntN(2) == 0
	case 5:
		i.name, i.signal, i.at = "stop", []syscall.Signal{syscall.SIGINT, syscall.SIGTERM}[r.IntN(2)], time.Duration(early(int64(10*time.Second)))
	case 6:
		i.name, i.room = "disk full", early(12_000)
	case 7:
		i.name, i.op, i.fault, i.torn = "disk fault", early(100), syscall.EIO, r.IntN(2) == 0
	}
	i.power = r.IntN(2) == 0
	for _, host := range []string{"primary.test", "fallback.test"} {
		for at := time.Duration(0); at < time.Minute && r.IntN(3) > 0; {
			at += time.Duration(r.Int64N(int64(20 * time.Second)))
			f := flap{host, at, at + time.Duration(r.Int64N(int64(15*time.Second)))}
			i.flaps, at = append(i.flaps, f), f.to
		}
	}
	if r.IntN(8) == 0 {
		i.offset = []time.Duration{-2 * time.Hour, -3 * time.Second, 40 * time.Minute, 26 * time.Hour, 31 * 24 * time.Hour}[r.IntN(5)]
	}
	return i
}

// play runs the program once, in a bubble of its own whose clock goes on where
// the last one stopped.
func (w *world) play(t *testing.T, i incident) (code int, out string) {
	t.Helper()
	w.begin(i)
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(w.clock)
		began := time.Now()
		p := &nightRun{world: w, incident: i, began: began, listeners: map[string]*pipes{}}
		p.hard, p.kill = context.WithCancel(context.Background())
		var servers []*http.Server
		for _, host := range []string{"primary.test", "fallback.test"} {
			l := newPipes()
			p.listeners[host] = l
			srv := &http.Server{Handler: w.server()}
			servers = append(servers, srv)
			go srv.Serve(l)
		}
		code, out = p.run()
		w.clock += time.Since(began)
		p.die(false)
		for _, srv := range servers { // what was under way reaches the server still
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			_ = srv.Shutdown(ctx)
			cancel()
			_ = srv.Close()
		}
		w.clock += time.Second
	})
	w.end(i, code, out)
	return code, out
}

// nightRun is one run of the program.
type nightRun struct {
	*world
	incident
	began     time.Time
	listeners map[string]*pipes
	hard      context.Context
	kill      context.CancelFunc
	dead      atomic.Bool
}

func (p *nightRun) run() (code int, out string) {
	soft, stop := context.WithCancel(context.Background())
	defer stop()
	var stdout, stderr bytes.Buffer
	got := new(atomic.Int32)
	sys := system{
		args: p.args, environ: p.environ(), stdin: strings.NewReader(""), stdout: &stdout, stderr: &stderr,
		soft: soft, hard: p.hard, signal: got, graceful: new(atomic.Bool), fs: p.disk.FS(), dial: p.dial, random: p.random,
		lock: func(context.Context, string, string) (func() error, error) { return func() error { return nil }, nil },
	}
	if p.at > 0 {
		defer time.AfterFunc(p.at, func() {
			if p.incident.signal == syscall.SIGKILL {
				p.die(true)
			}
			got.Store(int32(p.incident.signal))
			stop()
		}).Stop()
	}
	first := int64(0)
	p.disk.Hook(func(op disktest.Op) error {
		if first == 0 {
			first = op.N
		}
		if p.op == 0 || op.N != first+p.op-1 {
			return nil
		}
		err := p.fault
		if err == nil {
			p.told("killed at %s %s", op.Kind, op.Name)
			err = disktest.ErrDead
			if !p.torn || op.Kind != disktest.Write {
				p.die(true)
				stop()
				return err
			}
			defer func() { time.AfterFunc(0, func() { p.die(true); stop() }) }()
		} else {
			p.told("%v at %s %s", err, op.Kind, op.Name)
		}
		if p.torn && op.Kind == disktest.Write {
			return &disktest.Torn{Bytes: op.Bytes / 2, Err: err}
		}
		return err
	})
	defer p.disk.Hook(nil)
	if p.room > 0 {
		p.disk.Limit(p.used() + p.room)
		defer p.disk.Limit(0)
	}
	code = run(sys)
	stop()
	return code, stdout.String() + stderr.String()
}

// die ends the process: its disk, its connections, its waits.
func (p *nightRun) die(killed bool) {
	if p.dead.Swap(true) {
		return
	}
	if killed {
		p.killed = true
		if p.power {
			p.disk.PowerCut(rand.New(rand.NewPCG(p.seed, uint64(p.runs))))
		} else {
			p.disk.Kill()
		}
	}
	p.kill()
	for _, l := range p.listeners {
		l.Close()
	}
}

// down says whether the link to a host is.
func (p *nightRun) down(host string) bool {
	if p.dead.Load() {
		return true
	}
	since := time.Since(p.began)
	return !p.healthy && slices.ContainsFunc(p.flaps, func(f flap) bool { return f.host == host && f.from <= since && since < f.to })
}

func (p *nightRun) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	if p.down(host) {
		return nil, errLink
	}
	c, err := p.listeners[host].dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &link{Conn: c, down: func() bool { return p.down(host) }}, nil
}

var errLink = errors.New("network is unreachable")

// link is a connection over a link that may be down.
type link struct {
	net.Conn
	down func() bool
}

func (l *link) Write(b []byte) (int, error) {
	if l.down() {
		_ = l.Close()
		return 0, errLink
	}
	return l.Conn.Write(b)
}

func (l *link) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b)
	if l.down() {
		_ = l.Close()
		return 0, errLink // what came is lost on the way
	}
	return n, err
}

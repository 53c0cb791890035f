package netshape

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// line is a dialer whose connections take turns on a slow line.
type line struct {
	perConn time.Duration
	dead    map[string]error
	free    chan struct{}
	dials   atomic.Int64
}

func (l *line) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	l.dials.Add(1)
	if err := l.dead[addr]; err != nil {
		return nil, err
	}
	select {
	case l.free <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-l.free }()
	if err := sleep(ctx, l.perConn); err != nil {
		return nil, err
	}
	c, other := net.Pipe()
	_ = other.Close()
	return c, nil
}

func newLine(perConn time.Duration) *line {
	return &line{perConn: perConn, dead: map[string]error{}, free: make(chan struct{}, 1)}
}

var three = []string{"a:443", "b:443", "c:443"}

func TestJudge(t *testing.T) {
	ok := func(took time.Duration) Answer { return Answer{Target: "a:443", OK: true, Took: took} }
	dead := Answer{Target: "b:443", Error: "timed out"}
	for _, tt := range []struct {
		name          string
		t             Targets
		before, after []Answer
		want          bool
		why           string
	}{
		{"all", Targets{Addrs: three}, nil, []Answer{ok(1), ok(1), ok(1)}, true, "3 of 3"},
		{"two of three", Targets{Addrs: three}, nil, []Answer{ok(1), dead, ok(1)}, true, "2 of 3"},
		{"one of three", Targets{Addrs: three}, nil, []Answer{ok(1), dead, dead}, false, "1 of 3 targets answer, 2 are needed; b:443: timed out"},
		{"all are needed", Targets{Addrs: three, Need: 3}, nil, []Answer{ok(1), dead, ok(1)}, false, "3 are needed"},
		{"much slower", Targets{Addrs: three[:1]}, []Answer{ok(40 * time.Millisecond)}, []Answer{ok(600 * time.Millisecond)}, false, "took 600ms, before it was 40ms"},
		{"slower", Targets{Addrs: three[:1]}, []Answer{ok(40 * time.Millisecond)}, []Answer{ok(300 * time.Millisecond)}, true, ""},
		{"far away", Targets{Addrs: three[:1]}, []Answer{ok(700 * time.Millisecond)}, []Answer{ok(1900 * time.Millisecond)}, true, ""},
		{"nobody", Targets{}, nil, nil, false, "0 of 0"},
		{"operator lost", Targets{Addrs: three[:1], Peers: []string{"o:22"}}, []Answer{ok(1), ok(1)}, []Answer{ok(1), dead}, false, "the operator at b:443 does not answer"},
		{"operator behind a firewall", Targets{Addrs: three[:1], Peers: []string{"o:22"}}, []Answer{ok(1), dead}, []Answer{ok(1), dead}, true, ""},
	} {
		if got, why := tt.t.Judge(tt.before, tt.after); got != tt.want || !strings.Contains(why, tt.why) {
			t.Errorf("%s: %v, %s", tt.name, got, why)
		}
	}
}

// A rate that lets single packets through is found out by several at once.
func TestAskUselessRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fast, slow := newLine(time.Millisecond), newLine(200*time.Millisecond) // 200 ms: three packets at 8 kbit/s
		before := Targets{Addrs: three, Dial: fast.dial}.Ask(t.Context())
		after := Targets{Addrs: three, Dial: slow.dial}
		if ok, why := after.Judge(before, after.Ask(t.Context())); ok {
			t.Error(why)
		}
		if n := fast.dials.Load(); n != 24 {
			t.Error(n)
		}
	})
}

func TestAutoConfirm(t *testing.T) {
	for name, tt := range map[string]struct {
		perConn time.Duration
		want    bool
	}{"a good rate": {2 * time.Millisecond, true}, "8 kbit/s": {200 * time.Millisecond, false}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBox(t, "eth1")
				b.guard(t)
				untouched := b.picture()
				before := Targets{Addrs: three, Dial: newLine(time.Millisecond).dial}.Ask(t.Context())
				done, err := b.Apply(t.Context(), b.plan(t, Desired{Interfaces: []Interface{cakeAt("9mbit")}}), time.Minute)
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithDeadline(t.Context(), done.Until)
				defer cancel()
				err = b.AutoConfirm(ctx, done.ID, Targets{Addrs: three, Dial: newLine(tt.perConn).dial}, before)
				if (err == nil) != tt.want || err != nil && !strings.Contains(err.Error(), "0 of 3 targets answer") {
					t.Error(err)
				}
				b.pass(2 * time.Minute)
				if rolled := b.picture() == untouched; rolled == tt.want {
					t.Error(b.picture())
				}
			})
		})
	}
}

// Being refused is an answer of a peer and none of a target.
func TestRefusedPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(time.Millisecond)
		refused := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
		l.dead["o:22"], l.dead["a:443"] = refused, refused
		a := Targets{Addrs: three[:1], Peers: []string{"o:22"}, Dial: l.dial}.Ask(t.Context())
		if a[0].OK || !a[1].OK {
			t.Errorf("%+v", a)
		}
		l.dead["o:22"] = errors.New("timed out")
		if a := (Targets{Peers: []string{"o:22"}, Dial: l.dial}).Ask(t.Context()); a[0].OK {
			t.Errorf("%+v", a)
		}
	})
}

func TestSSHPeer(t *testing.T) {
	for _, tt := range []struct {
		connection string
		interfaces []string
		want       string
	}{
		{"", []string{"lo"}, ""},
		{"127.0.0.1 50022 127.0.0.1 22", []string{"lo"}, "127.0.0.1:50022"},
		{"127.0.0.1 50022 127.0.0.1 22", []string{"nothere0"}, ""},
		{"garbage", []string{"lo"}, ""},
	} {
		if got := SSHPeer(tt.connection, tt.interfaces); got != tt.want {
			t.Errorf("%q by %v: %q", tt.connection, tt.interfaces, got)
		}
	}
}

package netshape

import (
	"errors"
	"net"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"trafficup/internal/tc"
)

// cakeBox is a kernel that has all queues.
func cakeBox(t *testing.T) *Machine {
	t.Helper()
	namespace(t)
	m := realBox(t)
	m.Kernel = kernel{}
	if missing := must(m.Kernel.Missing([]tc.Kind{tc.KindCake, tc.KindFqCodel, tc.KindHTB, tc.KindIngress, kindIFB})); len(missing) > 0 {
		t.Skip("this kernel has no", missing) // nor can one be put there
	}
	return m
}

// On a kernel with cake and fq_codel: all that a Spec can say is read back as set,
// the same once more is nothing to do, each kind follows each, and clear leaves
// what was there.
func TestRealQueues(t *testing.T) {
	m := cakeBox(t)
	before := must(m.Kernel.Qdiscs(must(m.Observe("up0")).Interfaces["up0"].Link.Index))
	overhead, negative := 44, -4
	for _, s := range []Spec{
		{Kind: "cake", Up: "9mbit"},
		{Kind: "cake", Up: "9mbit", Down: "100mbit"},
		{Kind: "cake"},
		{Kind: "cake", Up: "3mbit", Down: "25mbit", Profile: "geo", AckFilter: "aggressive"},
		{Kind: "cake", Up: "87.3% of 10mbit", Profile: "leo", AckFilter: "on", Diffserv: "diffserv3", Wash: true},
		{Kind: "fq_codel", Up: "9mbit", Down: "100mbit"},
		{Kind: "cake", Up: "1.5gbit", Profile: "lte", Diffserv: "besteffort", NAT: new(false), Overhead: &overhead, MPU: 64},
		{Kind: "fq_codel", Up: "900kbit", Diffserv: "besteffort", Profile: "geo"},
		{Kind: "fq_codel", Up: "8kbit", Profile: "lte"},
		{Kind: "cake", Up: "9mbit", RTT: 30*time.Millisecond + 7*time.Microsecond, Overhead: &negative, Diffserv: "diffserv8"},
		{Kind: "cake", Up: "9mbit", Diffserv: "precedence"},
		{Kind: "none"},
	} {
		s.Name = "up0"
		d := Desired{Interfaces: []Interface{must(Parse(s))}}
		applyReal(t, m, d, false)
		if p := applyReal(t, m, d, false); !p.Equal {
			t.Errorf("%+v:\n%s", s, text(t, p))
		}
	}
	typed := Desired{Interfaces: []Interface{must(Parse(Spec{Name: "up0", Kind: "cake", Up: "8.73mbit", Down: "90mbit", Profile: "geo", AckFilter: "on"}))}}
	for _, s := range Make(typed, must(m.Observe("up0")), false).Steps {
		for _, c := range s.Commands {
			if out, err := exec.Command("sh", "-ec", c).CombinedOutput(); err != nil {
				t.Fatalf("%s: %v: %s", c, err, out)
			}
		}
	}
	if p := applyReal(t, m, typed, false); !p.Equal {
		t.Errorf("after the commands that were printed:\n%s", text(t, p))
	}
	clearReal(t, m)
	after := must(m.Kernel.Qdiscs(must(m.Observe("up0")).Interfaces["up0"].Link.Index))
	if len(after) != len(before) || after[0].Kind != before[0].Kind || !after[0].Default {
		t.Errorf("%+v, it was %+v", after, before)
	}
}

// The same a hundred times changes nothing in the kernel, which would tell of it, and
// counters go on while packets flow.
func TestRealAgain(t *testing.T) {
	m := cakeBox(t)
	d := Desired{Interfaces: []Interface{must(Parse(Spec{Name: "up0", Kind: "cake", Up: "9mbit", Down: "50mbit", Profile: "leo"}))}}
	applyReal(t, m, d, false)
	news := changes(t)
	stop := chatter(t)
	first := must(m.Status("up0")).Interfaces[0].Root.Stats
	last := first
	for i := range 100 {
		if p := applyReal(t, m, d, false); !p.Equal {
			t.Fatal(text(t, p))
		}
		if i%5 < 4 {
			continue
		}
		s := must(m.Status("up0")).Interfaces[0]
		if now := s.Root.Stats; !s.Ours || s.Drift != nil || now.Packets < last.Packets || now.Bytes < last.Bytes {
			t.Fatalf("%+v, before %+v", s, last)
		}
		last = s.Root.Stats
	}
	stop()
	if n := news(); n > 0 || last.Packets < first.Packets+100 {
		t.Errorf("%d changes are told, %d packets became %d", n, first.Packets, last.Packets)
	}
	d.Interfaces[0] = must(Parse(Spec{Name: "up0", Kind: "cake", Up: "8mbit", Down: "50mbit"}))
	applyReal(t, m, d, false)
	if news() == 0 {
		t.Error("a change is not told: nothing was shown")
	}
}

// changes returns how many changes of queues, classes and filters the kernel told of
// since then or since the last call.
func changes(t *testing.T) (count func() int) {
	t.Helper()
	s, err := nl.Subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_TC)
	try(t, err)
	t.Cleanup(s.Close)
	try(t, s.SetReceiveTimeout(&unix.Timeval{Usec: 200_000}))
	return func() (n int) {
		for {
			list, _, err := s.Receive()
			if errors.Is(err, unix.EAGAIN) {
				return n
			}
			try(t, err)
			n += len(list)
		}
	}
}

// chatter sends packets out by up0 until stop is called.
func chatter(t *testing.T) (stop func()) {
	t.Helper()
	try(t, netlink.AddrAdd(must(netlink.LinkByName("up0")), must(netlink.ParseAddr("192.0.2.1/24"))))
	try(t, netlink.NeighAdd(&netlink.Neigh{
		LinkIndex: must(netlink.LinkByName("up0")).Attrs().Index, State: netlink.NUD_PERMANENT,
		IP: net.IPv4(192, 0, 2, 2), HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 2},
	}))
	c, err := net.Dial("udp4", "192.0.2.2:9")
	try(t, err)
	done := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(5 * time.Millisecond):
				_, _ = c.Write(make([]byte, 100))
			}
		}
	})
	return func() { close(done); all.Wait(); _ = c.Close() }
}

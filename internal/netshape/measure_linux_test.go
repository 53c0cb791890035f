package netshape

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// road is an edge node behind a modem that sends 10 Mbit/s to a server and lets
// 400 ms of packets wait.
type road struct{ edge, modem, server netns.NsHandle }

const roadServer = "10.2.0.2"

func newRoad(t *testing.T) (r road) {
	t.Helper()
	runtime.LockOSThread() // for good: the thread ends with the test
	for _, ns := range []*netns.NsHandle{&r.server, &r.modem, &r.edge} {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			lacks(t, "root, for a network namespace:", err)
		}
		*ns = must(netns.Get())
		t.Cleanup(func() { _ = ns.Close() })
	}
	r.veth(t, r.edge, "up0", "10.1.0.2/24", r.modem, "lan0", "10.1.0.1/24")
	r.veth(t, r.modem, "out0", "10.2.0.1/24", r.server, "srv0", roadServer+"/24")
	for ns, via := range map[netns.NsHandle]string{r.edge: "10.1.0.1", r.server: "10.2.0.1"} {
		_, everything, _ := net.ParseCIDR("0.0.0.0/0")
		try(t, must(netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)).RouteAdd(&netlink.Route{Dst: everything, Gw: net.ParseIP(via)}))
	}
	h := must(netlink.NewHandleAt(r.modem, unix.NETLINK_ROUTE))
	a := netlink.QdiscAttrs{LinkIndex: must(h.LinkByName("out0")).Attrs().Index, Handle: 1 << 16, Parent: netlink.HANDLE_ROOT}
	if err := h.QdiscAdd(&netlink.Tbf{QdiscAttrs: a, Rate: 10e6 / 8, Buffer: netlink.Xmittime(10e6/8, 10_000), Limit: 500_000}); err != nil {
		lacks(t, "tbf:", err)
	}
	r.forward(t)
	return r
}

func (r road) veth(t *testing.T, from netns.NsHandle, name, address string, to netns.NsHandle, peer, peerAddress string) {
	t.Helper()
	a := netlink.NewLinkAttrs()
	a.Name = name
	try(t, must(netlink.NewHandleAt(from, unix.NETLINK_ROUTE)).LinkAdd(&netlink.Veth{LinkAttrs: a, PeerName: peer, PeerNamespace: netlink.NsFd(to)}))
	for _, end := range []struct {
		ns            netns.NsHandle
		name, address string
	}{{from, name, address}, {to, peer, peerAddress}} {
		h := must(netlink.NewHandleAt(end.ns, unix.NETLINK_ROUTE))
		l := must(h.LinkByName(end.name))
		try(t, h.AddrAdd(l, must(netlink.ParseAddr(end.address))))
		try(t, h.LinkSetGSOMaxSegs(l, 1)) // packets as large as on a wire
		try(t, h.LinkSetUp(l))
	}
}

func (r road) forward(t *testing.T) {
	t.Helper()
	try(t, netns.Set(r.modem))
	err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0)
	try(t, netns.Set(r.edge))
	try(t, err)
}

// dial is one of the edge node, whichever thread asks.
func (r road) dial(dscp int) Dial {
	inner := marked(dscp)
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		runtime.LockOSThread()
		home := must(netns.Get())
		defer func() {
			if netns.Set(home) == nil {
				runtime.UnlockOSThread()
			}
			_ = home.Close()
		}()
		if err := netns.Set(r.edge); err != nil {
			return nil, err
		}
		return inner(ctx, network, addr)
	}
}

// sink reads all that comes to the server's port 9.
func (r road) sink(t *testing.T) {
	t.Helper()
	try(t, netns.Set(r.server))
	l, err := net.Listen("tcp4", roadServer+":9")
	try(t, netns.Set(r.edge))
	try(t, err)
	var all sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); all.Wait() })
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { _, _ = io.Copy(io.Discard, c); _ = c.Close() })
		}
	})
}

func try(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The modem's rate and its queue are found; nobody listens at the target's port,
// which is an answer.
func TestMeasureReal(t *testing.T) {
	r := newRoad(t)
	r.sink(t)
	s := Survey{
		Interface: "up0", Target: roadServer + ":443", Sink: roadServer + ":9", Load: 4 * time.Second, every: 50 * ms, MaxBytes: 10e6,
		Dial: r.dial(bulkDSCP), Probe: ConnectProbe(roadServer+":443", r.dial(urgentDSCP)),
	}
	// Three times at most: on a machine that is busy it sees that, and not the modem.
	for range 3 {
		m, err := s.Measure(t.Context())
		t.Logf("%+v %v", m, err)
		// Of 1514 bytes on the link 1448 are the upload's.
		if err == nil && m.Rate > 9e6 && m.Rate < 9.8e6 && m.Idle.Duration < 50*ms && m.Bloat.Duration > 150*ms && m.Bloat.Duration < 600*ms && m.Bytes <= 10e6 {
			return
		}
	}
	t.Error("no measurement is right")
}

// Probes and uploads are marked before their first packet, in both families.
func TestMarked(t *testing.T) {
	for network, listen := range map[string]string{"tcp4": "127.0.0.1:0", "tcp6": "[::1]:0"} {
		l, err := net.Listen(network, listen)
		if err != nil {
			lacks(t, network, err)
		}
		c, err := marked(urgentDSCP)(t.Context(), "tcp", l.Addr().String())
		try(t, err)
		level, option := unix.IPPROTO_IP, unix.IP_TOS
		if network == "tcp6" {
			level, option = unix.IPPROTO_IPV6, unix.IPV6_TCLASS
		}
		var tos int
		try(t, must(c.(*net.TCPConn).SyscallConn()).Control(func(fd uintptr) { tos = must(unix.GetsockoptInt(int(fd), level, option)) }))
		if tos != urgentDSCP<<2 {
			t.Errorf("%s: %#x", network, tos)
		}
		try(t, errors.Join(c.Close(), l.Close()))
	}
}

// A machine answers its own pings, by a ping socket where the group may have one and
// by a raw one else; who is silent does not.
func TestPing(t *testing.T) {
	namespace(t)
	try(t, netlink.LinkSetUp(must(netlink.LinkByName("lo"))))
	for _, groups := range []string{"1 0", "0 2147483647"} {
		try(t, os.WriteFile("/proc/sys/net/ipv4/ping_group_range", []byte(groups), 0))
		for _, target := range []string{"icmp:127.0.0.1", "icmp:::1", "icmp:[::1]"} {
			probe, err := NewProbe(t.Context(), target, "lo")
			try(t, err)
			if d, err := probe(t.Context()); err != nil || d <= 0 || d > time.Second {
				t.Error(groups, target, d, err)
			}
		}
	}
	try(t, netlink.AddrAdd(must(netlink.LinkByName("up0")), must(netlink.ParseAddr("192.0.2.1/24"))))
	ctx, cancel := context.WithTimeout(t.Context(), 50*ms)
	defer cancel()
	if d, err := PingProbe(netip.MustParseAddr("192.0.2.2"))(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(d, err)
	}
}

// A rate is fitted in place on the real kernel, which is no drift, and comes back.
func TestSteerReal(t *testing.T) {
	namespace(t)
	m := realBox(t)
	d := Desired{Interfaces: []Interface{fifoAt(9e6)}}
	applyReal(t, m, d, false)
	for _, step := range []struct{ lowest, rate, want uint64 }{{2e6, 3e6, 3e6}, {2e6, 5e6, 5e6}, {0, 0, 9e6}} {
		if changed, err := m.steer(t.Context(), "up0", step.lowest, step.rate); !changed || err != nil {
			t.Fatal(changed, err)
		}
		p := Make(d, must(m.Observe("up0")), false)
		if s := must(m.Status("up0")); !p.Equal || s.Interfaces[0].Drift != nil || s.Interfaces[0].Root.Rate != step.want {
			t.Errorf("%v: %+v, %+v", step, p.Steps, s)
		}
	}
}

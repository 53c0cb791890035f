package route

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"trafficup/internal/nstest"
)

const noAddress = "ip addr flush dev wan0 scope global; ip route flush dev wan0; "

// What tables hold on links that are not one subnet with one gateway.
func TestOddLinks(t *testing.T) {
	t.Parallel()
	gw := netip.MustParseAddr("10.10.0.1")
	for name, c := range map[string]struct {
		do      string // on the edge
		isp     string // on isp0
		source  string
		gateway netip.Addr
		onLink  bool
		notes   int
		err     error
	}{
		"onlink": {
			noAddress + "ip addr add 100.64.1.5/32 dev wan0; ip route add default via 10.10.0.1 dev wan0 onlink proto dhcp metric 100",
			"ip route add 100.64.1.5 dev wan0", "100.64.1.5", gw, true, 0, nil,
		},
		"a route to the gateway": {
			noAddress + "ip addr add 100.64.1.5/32 dev wan0; ip route add 10.10.0.1 dev wan0 proto dhcp; ip route add default via 10.10.0.1 dev wan0 proto dhcp metric 100",
			"ip route add 100.64.1.5 dev wan0", "100.64.1.5", gw, false, 0, nil,
		},
		"a peer": {
			noAddress + "ip addr add 10.10.0.2 peer 10.10.0.1 dev wan0; ip route add default via 10.10.0.1 dev wan0 metric 100",
			"", "10.10.0.2", gw, false, 0, nil,
		},
		"no gateway": {
			"ip route del default dev wan0; ip route add default dev wan0 proto dhcp metric 100",
			"", "10.10.0.2", netip.Addr{}, false, 0, ErrNoGateway,
		},
		"no default": {"ip route del default dev wan0", "", "10.10.0.2", netip.Addr{}, false, 0, ErrNoGateway},
		"no address": {noAddress, "", "", netip.Addr{}, false, 0, ErrNoAddress},
		"metric 0": {
			"ip route del default dev wan0; ip route add default via 10.10.0.1 dev wan0 proto dhcp",
			"", "10.10.0.2", gw, false, 0, nil,
		},
		"several defaults": {
			"ip route add default via 10.10.0.77 dev wan0 proto static metric 300; ip route add default dev wan0 metric 400",
			"", "10.10.0.2", gw, false, 1, nil,
		},
		"the same metric twice": {
			"ip route append default via 10.10.0.77 dev wan0 proto static metric 100; ip route append default via 10.20.0.1 dev wan1 metric 100",
			"", "10.10.0.2", gw, false, 1, nil,
		},
		"several next hops": {
			"ip route del default dev wan0; ip route add default metric 50 nexthop via 10.20.0.1 dev wan1 nexthop via 10.10.0.1 dev wan0",
			"", "10.10.0.2", gw, false, 0, nil,
		},
		"the default's source": {
			"ip addr add 10.10.0.9/24 dev wan0; ip route del default dev wan0; ip route add default via 10.10.0.1 dev wan0 src 10.10.0.9 metric 100",
			"", "10.10.0.9", gw, false, 0, nil,
		},
		"the gateway's subnet": {
			noAddress + "ip addr add 192.168.100.9/24 dev wan0; ip addr add 10.10.0.2/24 dev wan0; ip route add default via 10.10.0.1 dev wan0 metric 100",
			"", "10.10.0.2", gw, false, 0, nil,
		},
		"an MTU, as dhcpcd sets it": {
			noAddress + "ip addr add 10.10.0.2/24 dev wan0 noprefixroute; ip route add 10.10.0.0/24 dev wan0 proto dhcp scope link src 10.10.0.2 metric 202 mtu 1400; ip route add default via 10.10.0.1 dev wan0 proto dhcp src 10.10.0.2 metric 100 mtu 1400",
			"", "10.10.0.2", gw, false, 0, nil,
		},
		"down": {"ip link set wan0 down", "", "", netip.Addr{}, false, 0, ErrDown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			nstest.Shell(t, l.edge, c.do)
			nstest.Shell(t, l.isp0, c.isp)
			d := Default().Discover(l.observe(t), "wan0")
			var want netip.Addr
			if c.source != "" {
				want = netip.MustParseAddr(c.source)
			}
			if !errors.Is(d.Err4, c.err) || (c.err == nil) != (d.Err4 == nil) || d.Source4 != want || d.Gateway4 != c.gateway || d.OnLink != c.onLink || len(d.Notes) != c.notes {
				t.Errorf("discovered is %+v", d)
			}
			before := l.dump(t)
			l.reach(t, "a")
			if c.err == nil {
				answers(t, l.edge, c.source, 0x100, target4, "isp0 "+c.source)
				answers(t, l.edge, "", 0, target4, "isp0 "+c.source)
			} else if got, err := ask(l.edge, "udp", c.source, 0x100, target4); err == nil {
				t.Errorf("a probe is answered by %q", got)
			}
			answers(t, l.edge, "10.20.0.2", 0x200, target4, "isp1")
			l.reach(t, "b")
			answers(t, l.edge, "", 0, target4, "isp1")
			l.remove(t)
			if after := l.dump(t); after != before {
				t.Errorf("left behind:\n%s\nthere was:\n%s", after, before)
			}
		})
	}
}

// What main's default says of its packets ours says, too, and follows it.
func TestMetrics(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	nstest.Shell(t, l.edge, `ip route replace default via 10.10.0.1 dev wan0 proto dhcp metric 100 mtu 1400 advmss 1300 hoplimit 60 initcwnd 20
		ip -6 route replace default via fd10::1 dev wan0 proto ra metric 1024 mtu 1380 hoplimit 61`)
	l.reach(t, "a")
	has := func(table int, want string) {
		t.Helper()
		if got := nstest.Shell(t, l.edge, fmt.Sprintf("ip route show table %d default; ip -6 route show table %[1]d default", table)); !strings.Contains(got, want) {
			t.Errorf("table %d is\n%swithout %s", table, got, want)
		}
	}
	for _, table := range []int{8710, 8711} {
		for _, want := range []string{"mtu 1400", "advmss 1300", "hoplimit 60", "initcwnd 20", "mtu 1380", "hoplimit 61"} {
			has(table, want)
		}
	}
	nstest.Shell(t, l.edge, "ip route replace default via 10.10.0.1 dev wan0 proto dhcp metric 100 mtu 1300")
	if steps := l.reach(t, "a"); len(steps) != 2 {
		t.Errorf("another MTU takes %d steps: %v", len(steps), steps)
	}
	has(8710, "mtu 1300")
	answers(t, l.edge, "", 0, target4, "isp0")
}

// A link without carrier keeps its routes, and is told of.
func TestNoCarrier(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	nstest.Shell(t, l.isp0, "ip link set wan0 down")
	var d Discovery
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) { // the flags follow a little later
		if d = Default().Discover(l.observe(t), "wan0"); !d.Carrier || time.Now().After(end) {
			break
		}
	}
	if d.Carrier || !d.Up || !errors.Is(d.Err4, ErrNoCarrier) || !errors.Is(d.Err6, ErrNoCarrier) {
		t.Errorf("discovered is %+v", d)
	}
	l.reach(t, "b")
	answers(t, l.edge, "", 0, target4, "isp1")
	if d := Default().Discover(l.observe(t), "wan7"); !errors.Is(d.Err4, ErrNoInterface) {
		t.Errorf("discovered is %+v", d)
	}
}

// A default of an advertisement ends with its lifetime, and the uplink with it.
func TestAdvertisedDefault(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	nstest.Shell(t, l.edge, `echo 1 >/proc/sys/net/ipv6/route/gc_interval; ip -6 route del default dev wan0
		ip -6 route add default via fd10::1 dev wan0 proto ra metric 512 expires 2`)
	if d := Default().Discover(l.observe(t), "wan0"); d.Gateway6 != netip.MustParseAddr("fd10::1") || d.Err6 != nil {
		t.Fatalf("discovered is %+v", d)
	}
	l.reach(t, "a")
	answers(t, l.edge, "", 0, target6, "isp0")
	for end := time.Now().Add(20 * time.Second); Default().Discover(l.observe(t), "wan0").Err6 == nil; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the kernel does not take the route away")
		}
	}
	l.reach(t, "a")
	if _, err := ask(l.edge, "tcp", "", 0, target6); !unreachableErr(err) {
		t.Errorf("%v, want unreachable", err)
	}
	answers(t, l.edge, "", 0, target4, "isp0")
}

// A tunnel has one other end, and needs no gateway.
func TestPointToPoint(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	nstest.Shell(t, l.edge, "ip tuntap add dev tun0 mode tun")
	tun := nstest.Inside(t, l.edge, func() (*os.File, error) { return openTun("tun0") })
	t.Cleanup(func() { _ = tun.Close() })
	nstest.Shell(t, l.edge, "ip addr add 10.64.0.7 peer 10.64.0.1 dev tun0; ip link set tun0 up; ip route add default dev tun0 proto static metric 300")
	k := l.observe(t)
	y := l.layout(k, "c")
	y.Uplinks = append(y.Uplinks, Uplink{Name: "c", Interface: "tun0"})
	y, found := y.Fill(k)
	if d := found[2]; !d.PointToPoint || d.Err4 != nil || d.Gateway4.IsValid() || d.Source4.String() != "10.64.0.7" || len(d.Connected) != 1 {
		t.Errorf("discovered is %+v", d)
	}
	p := y.Plan(k)
	l.do(t, p)
	if again := y.Plan(l.observe(t)); !again.empty() {
		t.Errorf("there is more to do: %v", again)
	}
	if !strings.Contains(p.String(), "+ ip rule add pref 20997 fwmark 0x300 lookup 8713 protocol 219\n") {
		t.Errorf("the plan lacks the third uplink's rule:\n%v", p)
	}
	for _, mark := range []int{0x300, 0} {
		before := len(readTun(t, tun))
		_, _ = ask(l.edge, "udp", "10.64.0.7", mark, target4)
		if got := readTun(t, tun); !slices.Contains(got, "10.64.0.7 > 9.9.9.9") {
			t.Errorf("the tunnel carries %q, and %d before", got, before)
		}
	}
	answers(t, l.edge, "10.20.0.2", 0x200, target4, "isp1")
}

func openTun(name string) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	req, err := unix.NewIfreq(name)
	if err == nil {
		req.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, req)
	}
	return os.NewFile(uintptr(fd), "tun"), err
}

// readTun returns from where to where the packets in a tunnel are that wait to be read.
func readTun(t *testing.T, tun *os.File) (all []string) {
	t.Helper()
	buf := make([]byte, 2048)
	for {
		if err := tun.SetReadDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		n, err := tun.Read(buf)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if n >= 20 && buf[0]>>4 == 4 {
			from, to := netip.AddrFrom4([4]byte(buf[12:16])), netip.AddrFrom4([4]byte(buf[16:20]))
			all = append(all, from.String()+" > "+to.String())
		}
	}
}

// One uplink's trouble does not hold up the other's steps.
func TestTrouble(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	k := l.observe(t)
	p := l.layout(k, "b").Plan(k)
	nstest.Shell(t, l.edge, "ip link set wan0 down") // since it was looked at
	_, err := nstest.TryInside(l.edge, func() (any, error) { return nil, Do(t.Context(), p) })
	if err == nil || strings.Contains(err.Error(), "wan1") || !strings.Contains(err.Error(), "wan0") {
		t.Errorf("the error is: %v", err)
	}
	answers(t, l.edge, "", 0, target4, "isp1")
	answers(t, l.edge, "", 0, target6, "isp1")
	l.reach(t, "b")
}

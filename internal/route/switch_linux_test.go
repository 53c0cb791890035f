package route

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"trafficup/internal/nstest"
)

// A switch is one message a family, and under it no packet finds no route.
func TestSwitch(t *testing.T) {
	l := newLab(t)
	l.reach(t, "a")
	s := nstest.Inside(t, l.edge, func() (*nl.NetlinkSocket, error) { return nl.Subscribe(unix.NETLINK_ROUTE, groups...) })
	t.Cleanup(s.Close)
	l.reach(t, "b")
	nstest.Shell(t, l.edge, "ip rule add pref 31000 lookup 78") // the end of what is looked at
	var seen []syscall.NetlinkMessage
	for {
		msgs, _, err := s.Receive()
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, msgs...)
		if msgs[0].Header.Type == unix.RTM_NEWRULE {
			break
		}
	}
	if seen = seen[:len(seen)-1]; len(seen) != 2 {
		t.Errorf("a switch is %d messages, want one a family: %v", len(seen), seen)
	}
	for _, m := range seen {
		if m.Header.Type != unix.RTM_NEWROUTE || m.Header.Flags&unix.NLM_F_REPLACE == 0 {
			t.Errorf("a switch is a message of type %d with flags %#x, want a replacing RTM_NEWROUTE", m.Header.Type, m.Header.Flags)
		}
	}

	arrived := func() (n [2]int) {
		for _, ns := range []string{l.isp0, l.isp1} {
			for i, name := range []string{"Udp:", "Udp6NoPorts"} {
				n[i] += noPorts(t, ns, name)
			}
		}
		return n
	}
	k := l.observe(t)
	to := [2]Plan{{Steps: switchOf(l, k, "a")}, {Steps: switchOf(l, k, "b")}}
	// main would hide it
	nstest.Shell(t, l.edge, "for i in 1 2; do ip route del default; ip -6 route del default; done")
	before := arrived()
	var stop atomic.Bool
	var senders sync.WaitGroup
	var sent [2]atomic.Int64
	for _, ns := range []string{l.lan, l.edge} {
		for i, to := range []string{"9.9.9.9:7001", "[fd99::9]:7001"} {
			c := nstest.Inside(t, ns, func() (*net.UDPConn, error) { return net.ListenUDP([]string{"udp4", "udp6"}[i], nil) })
			senders.Go(func() {
				defer func() { _ = c.Close() }()
				for addr := netip.MustParseAddrPort(to); !stop.Load(); time.Sleep(20 * time.Microsecond) {
					if _, err := c.WriteToUDPAddrPort([]byte("x"), addr); err != nil {
						t.Errorf("send from %s: %v", ns, err)
						return
					}
					sent[i].Add(1)
				}
			})
		}
	}
	for i := range 300 {
		l.do(t, to[i%2])
	}
	stop.Store(true)
	senders.Wait()
	after := arrived()
	for i := range sent {
		if want := int(sent[i].Load()); after[i]-before[i] != want || want < 300 {
			t.Errorf("family %d: %d of %d packets arrived", i, after[i]-before[i], want)
		}
	}
}

// switchOf is what a switch to an uplink takes, whichever is active.
func switchOf(l lab, k Kernel, active string) (steps []Step) {
	for _, v6 := range []bool{false, true} {
		r, _ := l.layout(k, active).Numbered().activeRoute(v6)
		steps = append(steps, Step{Op: Change, Route: r})
	}
	return steps
}

// noPorts returns how many packets came to a port where nobody listens.
func noPorts(t *testing.T, ns, name string) int {
	t.Helper()
	column := -1
	for line := range strings.Lines(nstest.Shell(t, ns, "cat /proc/net/snmp /proc/net/snmp6")) {
		f := strings.Fields(line)
		switch {
		case len(f) < 2 || f[0] != name:
		case len(f) == 2:
			column = 1
			fallthrough
		case column >= 0:
			n, err := strconv.Atoi(f[column])
			if err != nil {
				t.Fatal(err)
			}
			return n
		default:
			for i, s := range f {
				if s == "NoPorts" {
					column = i
				}
			}
		}
	}
	t.Fatalf("%s is not counted", name)
	return 0
}

// A default in main, and no rules. The one and the other mode follow each other.
func TestSimple(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	masquerade(t, l)
	before := l.dump(t)
	simple := func(active string) Plan {
		k := l.observe(t)
		y := l.layout(k, active)
		y.Simple = true
		return y.Plan(k)
	}
	for i, active := range []string{"a", "b"} {
		l.do(t, simple(active))
		if again := simple(active); !again.empty() {
			t.Errorf("there is more to do: %v", again)
		}
		answers(t, l.lan, "", 0, target4, []string{"isp0", "isp1"}[i])
		answers(t, l.lan, "", 0, target6, []string{"isp0", "isp1"}[i])
	}
	var ours []string
	for line := range strings.Lines(l.dump(t)) {
		if !strings.Contains(before, line) {
			ours = append(ours, strings.Join(strings.Fields(line), " "))
		}
	}
	want := []string{
		"1 default via 10.20.0.1 dev wan1 table 254 proto 219 scope 0 src 10.20.0.2 metric 5",
		"1 default via fd20::1 dev wan1 table 254 proto 219 scope 0 src fd20::2 metric 5 pref medium",
	}
	if !slices.Equal(ours, want) {
		t.Errorf("ours is %q, want %q", ours, want)
	}
	l.reach(t, "b")
	carries(t, l, 1)
	l.do(t, simple("b"))
	l.remove(t)
	if after := l.dump(t); after != before {
		t.Errorf("left behind:\n%s\nthere was:\n%s", after, before)
	}
	nstest.Shell(t, l.edge, "ip route add default via 10.10.0.1 dev wan0 proto dhcp")
	if p := simple("b"); len(p.Refusals) != 1 || p.Refusals[0].Kind != LowMetric {
		t.Errorf("a default of metric 0 cannot be got before, and the plan is: %v", p)
	}
	l.reach(t, "b") // but rules do
	answers(t, l.lan, "", 0, target4, "isp1")
}

// Without rights nothing is done, and the error says so.
func TestRights(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	k := l.observe(t)
	p := l.layout(k, "a").Plan(k)
	err := func() error {
		_, err := nstest.TryInside(l.edge, func() (any, error) {
			if _, err := Observe(context.Background()); err != nil {
				return nil, err
			}
			const nobody = 65534
			if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, nobody, nobody, nobody); e != 0 { // of this thread only
				return nil, e
			}
			if _, err := Observe(context.Background()); err != nil {
				t.Errorf("observe without rights: %v", err)
			}
			return nil, Do(context.Background(), p)
		})
		return err
	}()
	if !errors.Is(err, fs.ErrPermission) {
		t.Errorf("%v, want no permission", err)
	}
}

// What the old uplink's address stands in is forgotten, and nothing else.
func TestDropFlows(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	snat(t, l)
	nstest.Shell(t, l.edge, `nft 'table ip6 f { chain f { type filter hook forward priority 0; ct state new accept; }; }'`)
	l.reach(t, "a")
	open := func() *net.UDPConn {
		c := nstest.Inside(t, l.lan, func() (*net.UDPConn, error) {
			return net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.MustParseAddrPort(target4)))
		})
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	say := func(c *net.UDPConn, wait time.Duration) string {
		_ = c.SetDeadline(time.Now().Add(wait))
		_, _ = c.Write([]byte("?"))
		buf := make([]byte, 100)
		n, _ := c.Read(buf)
		return string(buf[:n])
	}
	flows := func() int {
		return nstest.Inside(t, l.edge, func() (n int, err error) {
			for _, family := range []netlink.InetFamily{unix.AF_INET, unix.AF_INET6} {
				all, e := netlink.ConntrackTableList(netlink.ConntrackTable, family)
				n, err = n+len(all), errors.Join(err, e)
			}
			return n, err
		})
	}
	drop := func(addr string) int { // how many
		before := flows()
		nstest.Inside(t, l.edge, func() (int, error) { return 0, DropFlows(netip.MustParseAddr(addr)) })
		return before - flows()
	}
	old := open()
	if got := say(old, time.Second); got != "isp0 10.10.0.2" {
		t.Fatalf("the flow is answered %q", got)
	}
	l.reach(t, "b")
	young := open()
	if got := say(young, time.Second); got != "isp1 10.20.0.2" {
		t.Fatalf("the new flow is answered %q", got)
	}
	if got := say(old, 200*time.Millisecond); got != "" {
		t.Fatalf("the old flow is answered %q, and there is nothing to show", got)
	}
	if n := drop("10.10.0.2"); n != 1 {
		t.Errorf("%d flows dropped, want 1", n)
	}
	if got := say(old, time.Second); got != "isp1 10.20.0.2" {
		t.Errorf("the old flow is answered %q after all", got)
	}
	if n := drop("10.10.0.2"); n != 0 {
		t.Errorf("%d flows dropped, want none", n)
	}
	answers(t, l.lan, "", 0, target6, "isp1")
	if n := drop("fd01::2"); n < 1 {
		t.Error("no flow of IPv6 dropped")
	}
	if n := drop("10.20.0.2"); n != 2 {
		t.Errorf("%d flows dropped, want both", n)
	}
}

package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"trafficup/internal/nstest"
)

// An uplink is probed whichever is in use, whatever its kind of NAT and the target,
// and nothing leaves by the other. All is marked, and counted to the byte.
func TestProbesLeaveByTheirUplink(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	taps := [2]*tap{newTap(t, l.edge, "wan0"), newTap(t, l.edge, "wan1")}
	for _, nat := range []string{"oifname wan* masquerade", "oifname wan0 snat ip to 10.0.1.2; add rule inet nat post oifname wan1 snat ip to 10.0.2.2"} {
		nstest.Shell(t, l.edge, "nft 'flush ruleset; add table inet nat; add chain inet nat post { type nat hook postrouting priority srcnat; }; add rule inet nat post "+nat+"'")
		for inUse := range l.uplinks {
			l.use(t, inUse)
			for i, b := range l.uplinks {
				for _, to := range targets {
					taps[0].seen()
					taps[1].seen()
					r := l.probe(t, patient, b, to)
					if !r.OK || r.RTT <= 0 || r.Fault != None || r.Why != "" {
						t.Errorf("%s, by %s, with %s in use: %+v", to, b.Interface, l.uplinks[inUse].Interface, r)
						continue
					}
					counted(t, to, b, r, taps[i])
					for _, p := range taps[1-i].seen() {
						if p.with(to.Addr.Addr()) {
							t.Errorf("%s, by %s: seen on the other: %+v", to, b.Interface, p)
						}
					}
				}
			}
		}
	}
}

// counted checks the packets of one probe that p has seen: their bytes, marks and
// source. The last may be late: a process that another test starts holds a socket
// open until it has become another program.
func counted(t *testing.T, to Target, b Binding, r Result, p *tap) {
	t.Helper()
	of := func(seen []packet) (own []packet, sum int) {
		for _, pkt := range seen {
			if pkt.with(to.Addr.Addr()) && !pkt.arp && !pkt.nd {
				own, sum = append(own, pkt), sum+pkt.size
			}
		}
		return own, sum
	}
	own, sum := of(p.seen())
	for end := time.Now().Add(5 * time.Second); sum < r.Bytes && time.Now().Before(end); {
		more, n := of(p.seen())
		own, sum = append(own, more...), sum+n
		time.Sleep(time.Millisecond)
	}
	want, sent := EF, 0
	if b.DSCP != 0 {
		want = max(0, b.DSCP)
	}
	for _, pkt := range own {
		if !pkt.out {
			continue
		}
		sent++
		if pkt.dscp != want || pkt.src != b.Source4 && pkt.src != b.Source6 {
			t.Errorf("%s: %+v, want DSCP %d from the uplink's address", to, pkt, want)
		}
		if syn := pkt.flags&2 != 0; sent == 1 && syn != (to.Kind == TCP || to.Kind == HTTP) {
			t.Errorf("%s: the first packet: %+v", to, pkt)
		}
	}
	if sent == 0 || sum != r.Bytes {
		t.Errorf("%s by %s: %d packets sent; counted %d bytes, captured %d: %+v", to, b.Interface, sent, r.Bytes, sum, own)
	}
}

// Other marks than EF, and servers that know few options of TCP, or end a
// connection themselves, are counted, too.
func TestOtherMarksAndOptions(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	p := newTap(t, l.edge, "wan0")
	for _, script := range []string{"", "sysctl -qw net.ipv4.tcp_timestamps=0", "sysctl -qw net.ipv4.tcp_timestamps=0 net.ipv4.tcp_sack=0 net.ipv4.tcp_window_scaling=0"} {
		nstest.Shell(t, l.isp0, script)
		for _, point := range []int{-1, 10} {
			b := l.uplinks[0]
			b.DSCP = point
			for _, to := range append(targets, parsed(TargetSpec{HTTP: "http://9.9.9.9:443/"})) {
				p.seen()
				r := l.probe(t, patient, b, to)
				if r.OK != (to.Kind != HTTP || to.Addr.Port() == 80) {
					t.Errorf("%s: %+v", to, r)
				}
				counted(t, to, b, r, p)
			}
		}
	}
}

// A SYN that is lost is sent again, and counted each time.
func TestLostSYN(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	nstest.Shell(t, l.isp0, "nft 'add table inet f; add chain inet f in { type filter hook input priority 0; }; add rule inet f in tcp flags syn limit rate 1/hour burst 1 packets drop'")
	p := newTap(t, l.edge, "wan0")
	r := l.probe(t, patient, l.uplinks[0], targets[1])
	if !r.OK || r.RTT < time.Second {
		t.Errorf("%+v", r)
	}
	counted(t, targets[1], l.uplinks[0], r, p)
}

// both does something for IPv4 and IPv6.
func both(script string) string { return "for f in -4 -6; do " + script + "; done" }

// What cannot be asked by its own uplink is not asked at all, also where the other
// uplink, and a neighbour that answers ARP for the target, would have answered.
func TestNothingIsSentWithoutAWay(t *testing.T) {
	t.Parallel()
	wanted(t)
	for _, c := range []struct {
		name, script string
		change       func(*Binding)
		want, want6  Fault // want6 "": the same
		why          string
	}{
		{name: "no default in the table", script: both("ip $f route flush table 8711; ip $f route add unreachable default metric 4278198272 table 8711"), want: NoRoute, why: "ip route get"},
		{name: "default without a gateway", script: both("ip $f route flush table 8711; ip $f route add default dev wan0 table 8711"), want: NoRoute, why: "has no gateway"},
		{name: "prohibited", script: both("ip $f route flush table 8711; ip $f route add prohibit default table 8711"), want: NoRoute, why: "permission denied"},
		{name: "blackhole", script: both("ip $f route flush table 8711; ip $f route add blackhole default table 8711"), want: NoRoute, why: "invalid argument"},
		{name: "no table", script: both("ip $f route flush table 8711"), want: NoRoute, why: "leaves by wan1"},
		{name: "no rules", script: both("ip $f rule del pref 20998; ip $f rule del pref 21003"), want: NoRoute, why: "leaves by wan1"},
		{name: "only the other uplink", script: both("ip $f rule flush; ip $f rule add pref 32766 lookup main; ip $f route del default dev wan0"), want: NoRoute, why: "leaves by wan1"},
		{name: "the target is at home", script: "ip addr add 9.9.9.9/32 dev lo; ip addr add 2001:db8:9::9/128 dev lo", want: NoRoute, why: "leaves by lo"},
		{name: "no interface", change: func(b *Binding) { b.Interface = "wan7" }, want: NoRoute, why: `no interface "wan7"`},
		{name: "another interface", change: func(b *Binding) { b.Index++ }, want: NoRoute, why: "another one now"},
		{name: "another's mark", change: func(b *Binding) { b.Mark = 0x200 }, want: NoRoute, why: "leaves by wan1"},
		{name: "mark beyond the mask", change: func(b *Binding) { b.Mark = 0x500 }, want: NoRoute, why: "mask"},
		{name: "no address known", change: func(b *Binding) { b.Source4, b.Source6 = netip.Addr{}, netip.Addr{} }, want: NoSource, why: "has no IPv"},
		{name: "address changed", script: "ip addr del 10.0.1.2/24 dev wan0; ip addr add 10.0.1.3/24 dev wan0; ip addr del fd01::2/64 dev wan0; ip addr add fd01::3/64 dev wan0 nodad",
			want: NoSource, why: "is not an address of this machine"},
		{name: "address gone where any may be bound", script: "ip addr del 10.0.1.2/24 dev wan0; ip addr del fd01::2/64 dev wan0; sysctl -qw net.ipv4.ip_nonlocal_bind=1 net.ipv6.ip_nonlocal_bind=1",
			want: NoSource, why: "is not an address of this machine"},
		{name: "link down", script: "ip link set wan0 down", want: NoRoute, want6: NoSource}, // which takes the addresses of IPv6 away
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			nstest.Shell(t, l.edge, c.script)
			b := l.uplinks[0]
			if c.change != nil {
				c.change(&b)
			}
			taps := [2]*tap{newTap(t, l.edge, "wan0"), newTap(t, l.edge, "wan1")}
			for _, to := range targets {
				want := c.want
				if c.want6 != "" && to.Addr.Addr().Is6() {
					want = c.want6
				}
				if r := l.probe(t, patient, b, to); r.OK || r.Fault != want || !strings.Contains(r.Why, c.why) || r.Bytes != 0 {
					t.Errorf("%s: %+v, want %s, %q", to, r, want, c.why)
				}
			}
			for i, p := range taps {
				for _, pkt := range p.seen() {
					if pkt.with(targets[0].Addr.Addr()) || pkt.with(targets[5].Addr.Addr()) {
						t.Errorf("on wan%d: %+v", i, pkt)
					}
				}
			}
		})
	}
}

// Without a look at the way a dead uplink would pass for a good one, though reverse
// paths are filtered strictly: by a neighbour that answers ARP for the target, and
// by the other uplink, where addresses are masqueraded.
func TestWhatTheLookAtTheWayIsFor(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	nstest.Shell(t, l.isp0, "sysctl -qw net.ipv4.conf.wan.proxy_arp=1")
	nstest.Shell(t, l.edge, "nft 'add table ip nat; add chain ip nat post { type nat hook postrouting priority srcnat; }; add rule ip nat post oifname wan1 masquerade'")
	taps := [2]*tap{newTap(t, l.edge, "wan0"), newTap(t, l.edge, "wan1")}
	for i, script := range []string{"ip route flush table 8711; ip route add default dev wan0 table 8711", "ip route flush table 8711; ip link set wan0 down; ip addr add 10.0.1.2/32 dev lo"} {
		nstest.Shell(t, l.edge, script)
		err := nstest.Inside(t, l.edge, func() (error, error) {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			_, err := ask(ctx, l.uplinks[0], targets[0])
			return err, nil
		})
		if err != nil {
			t.Errorf("%s: there is no trap: %v", script, err)
		}
		trapped := false
		for _, pkt := range taps[i].seen() {
			trapped = trapped || pkt.dst == targets[0].Addr.Addr() && pkt.arp == (i == 0)
		}
		if !trapped {
			t.Errorf("%s: not seen on wan%d", script, i)
		}
		if r := l.probe(t, patient, l.uplinks[0], targets[0]); r.Fault != NoRoute {
			t.Errorf("%s: %+v", script, r)
		}
	}
}

// A point-to-point link has no neighbours, and needs no gateway. One that has an
// address of a neighbour of its own does.
func TestPointToPoint(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	nstest.Shell(t, l.edge, `ip tuntap add dev ppp0 mode tun; ip addr add 10.0.3.2 peer 10.0.3.1 dev ppp0; ip link set ppp0 up; ip route add default dev ppp0 table 8713
		ip rule add pref 20997 fwmark 0x300/0x300 lookup 8713
		ip addr add 10.0.4.2 peer 10.0.4.1/32 dev wan0; ip route replace default dev wan0 table 8711; ip route replace 10.0.4.1 dev wan0 table 8711`)
	ppp := Binding{Interface: "ppp0", Mark: 0x300, Mask: 0x300, Source4: netip.MustParseAddr("10.0.3.2")}
	far := l.uplinks[0]
	far.Source4 = netip.MustParseAddr("10.0.4.2")
	for _, c := range []struct {
		b    Binding
		dst  string
		want error
	}{{ppp, "9.9.9.9", nil}, {far, "10.0.4.1", nil}, {far, "9.9.9.9", ErrNoRoute}} {
		err := nstest.Inside(t, l.edge, func() (error, error) {
			r, err := c.b.Route(context.Background(), netip.MustParseAddr(c.dst))
			if err == nil && r.Gateway.IsValid() {
				err = fmt.Errorf("a gateway: %v", r)
			}
			return err, nil
		})
		if !errors.Is(err, c.want) {
			t.Errorf("%s by %s: %v, want %v", c.dst, c.b.Interface, err, c.want)
		}
	}
}

func TestRoute(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	nstest.Shell(t, l.edge, "ip route flush table 8712; ip route add 0.0.0.0/0 via inet6 fd02::1 dev wan1 table 8712")
	for i, want := range []Route{{l.uplinks[0].Index, netip.MustParseAddr("10.0.1.1")}, {l.uplinks[1].Index, netip.MustParseAddr("fd02::1")}} {
		got := nstest.Inside(t, l.edge, func() (Route, error) { return l.uplinks[i].Route(context.Background(), netip.MustParseAddr("9.9.9.9")) })
		if got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		if r := l.probe(t, patient, l.uplinks[i], targets[0]); !r.OK {
			t.Errorf("%+v", r)
		}
	}
}

// Each fault has its name, and the others are asked in peace.
func TestFaults(t *testing.T) {
	t.Parallel()
	const inbound = "add table inet f; add chain inet f in { type filter hook input priority 0; }; add rule inet f in "
	const outbound = "add table inet f; add chain inet f out { type filter hook output priority 0; }; add rule inet f out "
	web := func(path string, status int, body string) Target {
		return parsed(TargetSpec{HTTP: "http://9.9.9.9" + path, Status: status, Body: body})
	}
	wrong := []Target{web("/login", 204, ""), web("/away", 204, ""), web("/login", 200, "hello"), web("/hello", 200, "hello, world and all"),
		parsed(TargetSpec{HTTP: "http://9.9.9.9:443/"}), // which only closes
		parsed(TargetSpec{DNS: "9.9.9.9", Name: "nothing.example.com"}), parsed(TargetSpec{DNS: "9.9.9.9", Name: "example.org", Want: "MX"}), parsed(TargetSpec{DNS: "9.9.9.9", Name: "example.org", Want: "192.0.2.9"})}
	closed := []Target{parsed(TargetSpec{TCP: "9.9.9.9:444"}), parsed(TargetSpec{DNS: "9.9.9.9:54", Name: "example.org"}), parsed(TargetSpec{HTTP: "http://9.9.9.9:81/"}),
		parsed(TargetSpec{TCP: "[2001:db8:9::9]:444"}), parsed(TargetSpec{DNS: "[2001:db8:9::9]:54", Name: "example.org"})}
	icmp, tcp, dns, get := targets[0], targets[1], targets[2], targets[3]
	icmp6, tcp6, dns6 := targets[5], targets[6], targets[7]
	l := newLab(t)
	p := newTap(t, l.edge, "wan0")
	for _, to := range []Target{icmp, icmp6} { // after which the neighbours are known
		if r := l.probe(t, patient, l.uplinks[0], to); !r.OK {
			t.Errorf("%s: %+v", to, r)
		}
	}
	for _, c := range []struct {
		name, isp, edge string
		bad, good       []Target
		want            Fault
	}{
		{name: "dns dead", isp: inbound + "udp dport 53 drop", bad: []Target{dns, dns6}, good: []Target{icmp, tcp, get, icmp6, tcp6}, want: Timeout},
		{name: "tcp dead", isp: inbound + "meta l4proto tcp drop", bad: []Target{tcp, get, tcp6}, good: []Target{icmp, dns, icmp6, dns6}, want: Timeout},
		{name: "icmp dead", isp: inbound + "icmp type echo-request drop; add rule inet f in icmpv6 type echo-request drop", bad: []Target{icmp, icmp6}, good: []Target{tcp, dns, get, tcp6}, want: Timeout},
		{name: "reset", isp: inbound + "tcp dport { 80, 443 } reject with tcp reset", bad: []Target{tcp, get, tcp6}, good: []Target{icmp}, want: Refused},
		{name: "closed", bad: closed, want: Refused},
		{name: "reject", isp: inbound + "meta nfproto ipv4 meta l4proto { tcp, udp, icmp } reject with icmp type host-unreachable; add rule inet f in ip6 daddr 2001:db8:9::9 reject with icmpv6 type admin-prohibited",
			bad: []Target{icmp, tcp, dns, get, icmp6, tcp6, dns6}, want: Unreachable},
		{name: "portal", bad: wrong, want: WrongAnswer},
		{name: "own firewall", edge: outbound + "oifname wan0 drop", bad: []Target{icmp, dns, icmp6, dns6}, want: NoRights},
	} {
		for ns, rules := range map[string]string{l.isp0: c.isp, l.edge: c.edge} {
			nstest.Shell(t, ns, "nft 'flush ruleset; "+rules+"'")
		}
		for _, to := range c.bad {
			prober := impatient
			if c.want != Timeout {
				prober = patient
			}
			p.seen()
			r := l.probe(t, prober, l.uplinks[0], to)
			if r.OK || r.Fault != c.want || !strings.Contains(r.Why, to.String()) || (r.RTT > 0) != (c.want == Refused && to.Kind != DNS || c.want == WrongAnswer) {
				t.Errorf("%s: %s: %+v, want %s", c.name, to, r, c.want)
			}
			if c.want == Timeout || c.want == Refused && to.Kind != DNS {
				counted(t, to, l.uplinks[0], r, p)
			}
		}
		for _, to := range c.good {
			if r := l.probe(t, patient, l.uplinks[0], to); !r.OK {
				t.Errorf("%s: %s: %+v", c.name, to, r)
			}
		}
	}
}

// An answer that comes late is no success.
func TestLate(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	nstest.Shell(t, l.isp0, "sysctl -qw net.ipv4.icmp_echo_ignore_all=1")
	slowEcho(t, l.isp0)
	late := func(to Target) {
		r := l.probe(t, Prober{Timeout: slow / 2}, l.uplinks[0], to)
		if r.OK || r.RTT != 0 || r.Fault != Timeout {
			t.Errorf("%s: %+v, want none", to, r)
		}
		if r = l.probe(t, patient, l.uplinks[0], to); !r.OK || r.RTT < slow {
			t.Errorf("%s: %+v, want an answer", to, r)
		}
	}
	var all sync.WaitGroup
	for _, to := range []Target{targets[0], parsed(TargetSpec{DNS: "9.9.9.9", Name: "slow.example.org"}), parsed(TargetSpec{HTTP: "http://9.9.9.9/slow"})} {
		all.Go(func() { late(to) })
	}
	all.Wait()
	nstest.Shell(t, l.edge, "sysctl -qw net.ipv4.ping_group_range='0 2147483647'") // by a ping socket, to which all addresses answer
	late(targets[0])
}

// slowEcho answers echo requests in the kernel's place, late; before that it sends
// an answer to another question, and one from elsewhere.
func slowEcho(t *testing.T, ns string) {
	c := nstest.Inside(t, ns, func() (net.PacketConn, error) { return net.ListenPacket("ip4:icmp", "9.9.9.9") })
	elsewhere := nstest.Inside(t, ns, func() (net.PacketConn, error) { return net.ListenPacket("ip4:icmp", "10.0.1.1") })
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		buf := make([]byte, 256)
		for {
			n, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			if n < 9 || buf[0] != 8 {
				continue
			}
			buf[2] += 8 // the checksum of one with the type 0: 0x0800 more, without a carry or with
			if buf[2] < 8 {
				buf[3]++
			}
			buf[0] = 0
			_, _ = elsewhere.WriteTo(buf[:n], from)
			other, i := append([]byte{}, buf[:n]...), n-4
			for i > n-8 && other[i] == other[n-2] {
				i -= 2
			}
			other[n-2], other[i] = other[i], other[n-2] // of one sum
			_, _ = c.WriteTo(other, from)
			time.Sleep(slow)
			_, _ = c.WriteTo(buf[:n], from)
		}
	}()
	t.Cleanup(func() { _ = c.Close(); _ = elsewhere.Close(); <-ended })
}

// A table that is emptied while an answer is awaited proves nothing any more.
func TestWayIsProvedAgain(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	nstest.Shell(t, l.edge, "sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.wan0.rp_filter=0") // which else would drop the answer
	c := nstest.Inside(t, l.isp0, func() (net.PacketConn, error) { return net.ListenPacket("udp", "9.9.9.9:5353") })
	var all sync.WaitGroup
	all.Go(func() {
		resolve(c, func() { _ = exec.Command("ip", "-n", l.edge, "route", "flush", "table", "8711").Run() })
	})
	t.Cleanup(func() { _ = c.Close(); all.Wait() })
	r := l.probe(t, patient, l.uplinks[0], parsed(TargetSpec{DNS: "9.9.9.9:5353", Name: "example.org"}))
	if r.OK || r.Fault != NoRoute || r.RTT == 0 {
		t.Errorf("%+v", r)
	}
}

// A probe has a socket of its own, so a new address is probed from at once.
func TestAddressChanges(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	b := l.uplinks[0]
	if r := l.probe(t, patient, b, targets[0]); !r.OK {
		t.Fatalf("%+v", r)
	}
	nstest.Shell(t, l.edge, `ip addr del 10.0.1.2/24 dev wan0; ip addr add 10.0.1.3/24 dev wan0; ip rule add pref 21003 from 10.0.1.3 lookup 8711
		ip route replace 10.0.1.0/24 dev wan0 table 8711; ip route replace default via 10.0.1.1 dev wan0 table 8711`)
	if r := l.probe(t, patient, b, targets[0]); r.Fault != NoSource {
		t.Errorf("%+v", r)
	}
	for _, to := range targets[:4] { // also when it changes after the look at the way
		err := nstest.Inside(t, l.edge, func() (error, error) {
			_, err := ask(context.Background(), b, to)
			return err, nil
		})
		if !errors.Is(err, ErrNoSource) {
			t.Errorf("%s: %v", to, err)
		}
	}
	b.Source4 = netip.MustParseAddr("10.0.1.3")
	if r := l.probe(t, patient, b, targets[0]); !r.OK {
		t.Errorf("%+v", r)
	}
}

func TestCancelled(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	to := parsed(TargetSpec{DNS: "9.9.9.9", Name: "slow.example.org"})
	for _, after := range []time.Duration{0, slow / 3} {
		r := nstest.Inside(t, l.edge, func() (Result, error) {
			ctx, cancel := context.WithCancel(context.Background())
			time.AfterFunc(after, cancel)
			if after == 0 {
				cancel()
			}
			return patient.Probe(ctx, l.uplinks[0], to), nil
		})
		if r.OK || r.Fault != Cancelled {
			t.Errorf("after %v: %+v", after, r)
		}
	}
	r := nstest.Inside(t, l.edge, func() (Result, error) {
		ctx, cancel := context.WithTimeout(context.Background(), slow/3)
		defer cancel()
		return patient.Probe(ctx, l.uplinks[0], to), nil
	})
	if r.OK || r.Fault != Timeout {
		t.Errorf("%+v", r)
	}
}

// A group that may ping needs no raw socket; nobody may do anything, and is told
// what is missing.
func TestRights(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	asOther := func() []string {
		out := nstest.Inside(t, l.edge, func() ([]byte, error) {
			cmd := exec.Command("/proc/self/exe") // a path that another user can walk
			cmd.Env = append(os.Environ(), "PROBE_HELPER=1")
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
			return cmd.Output()
		})
		return strings.Split(strings.TrimSpace(string(out)), "\n")
	}
	check := func(got []string, want ...string) {
		t.Helper()
		if len(got) != len(want) {
			t.Fatalf("%q, want %q", got, want)
		}
		for i := range got {
			if !strings.Contains(got[i], want[i]) {
				t.Errorf("%q, want %q", got[i], want[i])
			}
		}
	}
	check(asOther(), "no-rights", "no-rights", "no-rights", "no-rights", "no-rights icmp 9.9.9.9 by wan0: no rights: to ping needs CAP_NET_RAW, or the group in net.ipv4.ping_group_range")
	nstest.Shell(t, l.edge, "sysctl -qw net.ipv4.ping_group_range='0 2147483647'")
	check(asOther(), "no-rights", "no-rights", "no-rights", "no-rights", "none")
	p := newTap(t, l.edge, "wan0")
	for _, to := range []Target{targets[0], targets[5]} { // by ping sockets now
		p.seen()
		r := l.probe(t, patient, l.uplinks[0], to)
		if !r.OK {
			t.Errorf("%s: %+v", to, r)
		}
		counted(t, to, l.uplinks[0], r, p)
	}
}

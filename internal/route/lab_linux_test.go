package route

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"trafficup/internal/nstest"
)

// wanted skips a test that this machine cannot run, and fails it where CI is set.
func wanted(t *testing.T) {
	t.Helper()
	var missing []string
	if os.Getuid() != 0 {
		missing = append(missing, "root")
	}
	for _, name := range []string{"ip", "nft"} {
		if _, err := exec.LookPath(name); err != nil {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return
	}
	if os.Getenv("CI") != "" {
		t.Fatalf("missing: %q", missing)
	}
	t.Skipf("missing: %q", missing)
}

// lab is an edge with a LAN and two providers, each of which is 9.9.9.9 and
// fd99::9 and says who it is to who asks there:
//
//	                   wan0 --- wan0 isp0  10.10.0.0/24, fd10::/64
//	lan lan0 --- lan0 edge
//	                   wan1 --- wan0 isp1  10.20.0.0/24, fd20::/64
//
// with 10.1.0.0/24 and fd01::/64 on the left. The edge is at 1 in the LAN and at
// 2 elsewhere, its defaults as DHCP and advertisements set them, its filter of
// reverse paths is strict.
type lab struct{ lan, edge, isp0, isp1 string }

const target4, target6 = "9.9.9.9:7000", "[fd99::9]:7000"

func newLab(t *testing.T) lab {
	wanted(t)
	id := fmt.Sprintf("route%d-%04x-", os.Getpid(), rand.IntN(1<<16))
	l := lab{id + "lan", id + "edge", id + "isp0", id + "isp1"}
	all := []string{l.edge, l.lan, l.isp0, l.isp1}
	t.Cleanup(func() {
		for _, ns := range all {
			_ = exec.Command("ip", "netns", "del", ns).Run()
		}
	})
	for _, ns := range all {
		nstest.Shell(t, "", "ip netns add "+ns)
		nstest.Shell(t, ns, `echo 1 | tee /proc/sys/net/ipv4/conf/*/rp_filter
			echo 0 | tee /proc/sys/net/ipv6/conf/default/accept_ra /proc/sys/net/ipv6/conf/default/accept_dad
			ip link set lo up`)
	}
	for _, far := range []struct {
		ns, dev, farDev string
		n, edge, far    int
	}{{l.lan, "lan0", "lan0", 1, 1, 2}, {l.isp0, "wan0", "wan0", 10, 2, 1}, {l.isp1, "wan1", "wan0", 20, 2, 1}} {
		script := fmt.Sprintf("ip -n %s link add %s type veth peer name %s netns %s\n", l.edge, far.dev, far.farDev, far.ns)
		for _, end := range []struct {
			ns, dev string
			host    int
		}{{l.edge, far.dev, far.edge}, {far.ns, far.farDev, far.far}} {
			script += fmt.Sprintf(`ip -n %[1]s -batch - <<.
				addr add 10.%[3]d.0.%[4]d/24 dev %[2]s
				addr add fd%02[3]d::%[4]d/64 dev %[2]s nodad
				link set %[2]s up
.
`, end.ns, end.dev, far.n, end.host)
		}
		nstest.Shell(t, "", script)
	}
	nstest.Shell(t, l.edge, `echo 1 >/proc/sys/net/ipv4/ip_forward; echo 1 >/proc/sys/net/ipv6/conf/all/forwarding
		ip route add default via 10.10.0.1 dev wan0 proto dhcp metric 100
		ip route add default via 10.20.0.1 dev wan1 proto dhcp metric 200
		ip -6 route add default via fd10::1 dev wan0 proto ra metric 1024
		ip -6 route add default via fd20::1 dev wan1 proto ra metric 2048
		ip route add 172.16.0.0/12 via 10.1.0.2; ip rule add pref 30000 to 192.0.2.0/24 lookup 77`)
	nstest.Shell(t, l.lan, "ip route add default via 10.1.0.1; ip -6 route add default via fd01::1")
	for i, ns := range []string{l.isp0, l.isp1} {
		nstest.Shell(t, ns, fmt.Sprintf(`ip addr add 9.9.9.9/32 dev lo; ip -6 addr add fd99::9/128 dev lo nodad
			ip route add 10.1.0.0/24 via 10.%[1]d.0.2; ip -6 route add fd01::/64 via fd%[1]d::2`, 10*(i+1)))
		serve(t, ns, "9.9.9.9", fmt.Sprint("isp", i))
		serve(t, ns, "fd99::9", fmt.Sprint("isp", i))
	}
	serve(t, l.edge, "10.10.0.2", "edge")
	serve(t, l.edge, "10.20.0.2", "edge")
	return l
}

func masquerade(t *testing.T, l lab) {
	nstest.Shell(t, l.edge, `nft 'table ip nat { chain post { type nat hook postrouting priority 100; oifname "wan*" ip saddr 10.1.0.0/24 masquerade; }; }'`)
}

func snat(t *testing.T, l lab) {
	nstest.Shell(t, l.edge, `nft 'table ip nat { chain post { type nat hook postrouting priority 100
		oifname "wan0" ip saddr 10.1.0.0/24 snat to 10.10.0.2
		oifname "wan1" ip saddr 10.1.0.0/24 snat to 10.20.0.2; }; }'`)
}

// layout is that of the lab, with every uplink as the kernel has it.
func (l lab) layout(k Kernel, active string) Layout {
	y := Default()
	y.Active = active
	y.Uplinks = []Uplink{{Name: "a", Interface: "wan0"}, {Name: "b", Interface: "wan1"}}
	y, _ = y.Fill(k)
	return y
}

func (l lab) observe(t *testing.T) Kernel {
	t.Helper()
	return nstest.Inside(t, l.edge, func() (Kernel, error) { return Observe(context.Background()) })
}

func (l lab) do(t *testing.T, p Plan) {
	t.Helper()
	nstest.Inside(t, l.edge, func() (any, error) { return nil, Do(context.Background(), p) })
}

// reach brings the layout about and returns the steps that this took.
func (l lab) reach(t *testing.T, active string) []Step {
	t.Helper()
	k := l.observe(t)
	p := l.layout(k, active).Plan(k)
	l.do(t, p)
	k = l.observe(t)
	if again := l.layout(k, active).Plan(k); !again.empty() {
		t.Fatalf("there is more to do after\n%vwhich is\n%v", p, again)
	}
	return p.Steps
}

func (l lab) remove(t *testing.T) {
	t.Helper()
	nstest.Inside(t, l.edge, func() (Plan, error) { return Remove(context.Background(), Default()) })
}

// dump is all of routes and rules, as they are printed.
func (l lab) dump(t *testing.T) string {
	t.Helper()
	return nstest.Shell(t, l.edge, `ip -4 -d -N rule; ip -6 -d -N rule; ip -4 -d -N route show table all; ip -6 -d -N route show table all`)
}

// serve answers on port 7000 of an address with a name and who it is that asks.
func serve(t *testing.T, ns, host, name string) {
	addr := net.JoinHostPort(host, "7000")
	l := nstest.Inside(t, ns, func() (net.Listener, error) { return net.Listen("tcp", addr) })
	u := nstest.Inside(t, ns, func() (*net.UDPConn, error) {
		return net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort(addr)))
	})
	say := func(from net.Addr) []byte {
		who, _, _ := net.SplitHostPort(from.String())
		return []byte(name + " " + strings.TrimPrefix(who, "::ffff:"))
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write(say(c.RemoteAddr()))
			_ = c.Close()
		}
	})
	all.Go(func() {
		buf := make([]byte, 2048)
		for {
			_, from, err := u.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = u.WriteTo(say(from), from)
		}
	})
	t.Cleanup(func() { _ = l.Close(); _ = u.Close(); all.Wait() })
}

// asked gives every flow of UDP a port of its own: one that an earlier flow had,
// by another uplink, loses a packet to the translation that is still known.
var asked atomic.Int32

// ask returns what is answered to one that asks from an address, with a mark. The
// time is enough for a second SYN: what is told of the first while it is being
// sent is not heard.
func ask(ns, network, from string, mark int, to string) (string, error) {
	d := net.Dialer{Timeout: 3 * time.Second, Control: func(_, _ string, c syscall.RawConn) (err error) {
		if mark == 0 {
			return nil
		}
		e := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MARK, mark) })
		return errors.Join(err, e)
	}}
	if ip := net.ParseIP(from); network == "udp" {
		d.LocalAddr = &net.UDPAddr{IP: ip, Port: 1024 + int(asked.Add(1))%30000}
	} else if ip != nil {
		d.LocalAddr = &net.TCPAddr{IP: ip}
	}
	return nstest.TryInside(ns, func() (string, error) {
		c, err := d.Dial(network, to)
		if err != nil {
			return "", err
		}
		defer func() { _ = c.Close() }()
		_ = c.SetDeadline(time.Now().Add(time.Second))
		if network == "udp" {
			if _, err = c.Write([]byte("?")); err != nil {
				return "", err
			}
		}
		buf := make([]byte, 100)
		n, err := c.Read(buf)
		return string(buf[:n]), err
	})
}

// answers fails the test unless each that asks gets the answer that begins so.
func answers(t *testing.T, ns, from string, mark int, to, want string) {
	t.Helper()
	for _, network := range []string{"tcp", "udp"} {
		if got, err := ask(ns, network, from, mark, to); err != nil || !strings.HasPrefix(got, want) {
			t.Errorf("%s from %s of %s with mark %#x to %s: %q, %v; want %q", network, from, ns, mark, to, got, err, want)
		}
	}
}

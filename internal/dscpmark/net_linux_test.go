package dscpmark

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
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

// lab is an edge between a LAN and an uplink, in namespaces of its own:
//
//	lan  lan0 --- lan0  edge  wan0 --- wan0  isp
//
// with 10.1.0.0/24 and fd01::/64 on the left, 10.2.0.0/24 and fd02::/64 on the
// right, the edge at 1 and the others at 2.
type lab struct{ lan, edge, isp string }

func newLab(t *testing.T) lab {
	wanted(t)
	id := fmt.Sprintf("mark%d-%04x-", os.Getpid(), rand.IntN(1<<16))
	l := lab{id + "lan", id + "edge", id + "isp"}
	for _, ns := range []string{l.lan, l.edge, l.isp} {
		t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", ns).Run() })
		nstest.Shell(t, "", "ip netns add "+ns+"; ip -n "+ns+" link set lo up")
	}
	for i, far := range []struct{ ns, dev string }{{l.lan, "lan0"}, {l.isp, "wan0"}} {
		n := i + 1
		nstest.Shell(t, "", fmt.Sprintf("ip -n %[1]s link add %[3]s type veth peer name %[3]s netns %[2]s", l.edge, far.ns, far.dev))
		for j, ns := range []string{l.edge, far.ns} {
			nstest.Shell(t, "", fmt.Sprintf(`ip -n %[1]s addr add 10.%[3]d.0.%[4]d/24 dev %[2]s
				ip -n %[1]s addr add fd0%[3]d::%[4]d/64 dev %[2]s nodad
				ip -n %[1]s link set %[2]s up`, ns, far.dev, n, j+1))
		}
		nstest.Shell(t, "", fmt.Sprintf("ip -n %[1]s route add default via 10.%[2]d.0.1; ip -n %[1]s -6 route add default via fd0%[2]d::1", far.ns, n))
	}
	nstest.Shell(t, l.edge, "echo 1 >/proc/sys/net/ipv4/ip_forward; echo 1 >/proc/sys/net/ipv6/conf/all/forwarding")
	return l
}

func apply(t *testing.T, ns string, cfg Config) {
	t.Helper()
	nstest.Inside(t, ns, func() (any, error) { return nil, Apply(cfg) })
}

func readIn(t *testing.T, ns string) State {
	t.Helper()
	return nstest.Inside(t, ns, func() (State, error) { return Read("") })
}

// packet is what a tap sees of one.
type packet struct {
	flow      string // "tcp 10.2.0.1 > 10.2.0.2:7000", with the port below 10000
	dscp, ecn uint8
	syn       bool
	goodSum   bool // the header's checksum, of IPv4
}

// tap sees what arrives at a device.
type tap struct {
	packets chan packet
	kept    map[string][]packet // by flow, those that nobody has asked for yet
	fd      int
}

func newTap(t *testing.T, ns, dev string) *tap {
	p := &tap{packets: make(chan packet, 1<<16), kept: map[string][]packet{}}
	p.fd = nstest.Inside(t, ns, func() (int, error) {
		link, err := net.InterfaceByName(dev)
		if err != nil {
			return 0, err
		}
		all := binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, unix.ETH_P_ALL))
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM, int(all))
		if err != nil {
			return 0, err
		}
		return fd, errors.Join(
			unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20),
			unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 50_000}),
			unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: link.Index}))
	})
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		p.read(stop)
	}()
	t.Cleanup(func() { close(stop); <-ended; _ = unix.Close(p.fd) })
	return p
}

func (p *tap) read(stop chan struct{}) {
	buf := make([]byte, 1<<16)
	for {
		n, from, err := unix.Recvfrom(p.fd, buf, 0)
		if ll, ok := from.(*unix.SockaddrLinklayer); err == nil && ok && ll.Pkttype != unix.PACKET_OUTGOING {
			if pkt, ok := parse(buf[:n]); ok {
				p.packets <- pkt
			}
		}
		select {
		case <-stop:
			return
		default:
		}
	}
}

// flow returns the packets of a flow: n, or what has come when that takes too
// long, and those that follow at once.
func (p *tap) flow(flow string, n int) []packet {
	for {
		wait := 40 * time.Millisecond
		if len(p.kept[flow]) < n {
			wait = 5 * time.Second
		}
		select {
		case pkt := <-p.packets:
			p.kept[pkt.flow] = append(p.kept[pkt.flow], pkt)
		case <-time.After(wait):
			defer delete(p.kept, flow)
			return p.kept[flow]
		}
	}
}

// dropped returns how many packets the kernel did not hand over.
func (p *tap) dropped(t *testing.T) uint32 {
	s, err := unix.GetsockoptTpacketStats(p.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	if err != nil {
		t.Fatal(err)
	}
	return s.Drops
}

func parse(b []byte) (p packet, ok bool) {
	if len(b) < 20 {
		return p, false
	}
	var tos, proto byte
	var src, dst netip.Addr
	switch b[0] >> 4 {
	case 4:
		tos, proto = b[1], b[9]
		src, _ = netip.AddrFromSlice(b[12:16])
		dst, _ = netip.AddrFromSlice(b[16:20])
		p.goodSum = sum(b[:20]) == 0xffff
		b = b[20:]
	case 6:
		if len(b) < 40 {
			return p, false
		}
		tos, proto = b[0]<<4|b[1]>>4, b[6]
		src, _ = netip.AddrFromSlice(b[8:24])
		dst, _ = netip.AddrFromSlice(b[24:40])
		p.goodSum = true
		b = b[40:]
	}
	name := map[byte]string{unix.IPPROTO_TCP: "tcp", unix.IPPROTO_UDP: "udp"}[proto]
	if name == "" || len(b) < 8 {
		return p, false
	}
	sport, dport := int(binary.BigEndian.Uint16(b)), int(binary.BigEndian.Uint16(b[2:]))
	p.flow = fmt.Sprintf("%s %v > %v:%d", name, src, dst, dport)
	if sport < 10000 {
		p.flow = fmt.Sprintf("%s %v:%d > %v", name, src, sport, dst)
	}
	p.dscp, p.ecn = tos>>2, tos&3
	p.syn = name == "tcp" && len(b) > 13 && b[13]&2 != 0
	return p, true
}

func sum(b []byte) uint32 {
	var s uint32
	for i := 0; i < len(b); i += 2 {
		s += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for s > 0xffff {
		s = s>>16 + s&0xffff
	}
	return s
}

// echo answers on a port, over IPv4 and IPv6, TCP and UDP, until the test ends.
func echo(t *testing.T, ns string, port int) {
	addr := fmt.Sprintf(":%d", port)
	l := nstest.Inside(t, ns, func() (net.Listener, error) { return net.Listen("tcp", addr) })
	u := nstest.Inside(t, ns, func() (net.PacketConn, error) { return net.ListenPacket("udp", addr) })
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer func() { _ = c.Close() }()
				_ = c.SetDeadline(time.Now().Add(20 * time.Second))
				back(c)
			})
		}
	})
	all.Go(func() {
		buf := make([]byte, 2048)
		for {
			n, from, err := u.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = u.WriteTo(buf[:n], from)
		}
	})
	t.Cleanup(func() { _ = l.Close(); _ = u.Close(); all.Wait() })
}

func back(c net.Conn) {
	buf := make([]byte, 2048)
	for {
		n, err := c.Read(buf)
		if err != nil {
			return
		}
		if _, err = c.Write(buf[:n]); err != nil {
			return
		}
	}
}

// dial opens a connection whose packets have the given bits of ECN, if UDP.
func dial(network, addr string, ecn int) (net.Conn, error) {
	d := net.Dialer{Timeout: 3 * time.Second, Control: func(netw, _ string, c syscall.RawConn) (err error) {
		e := c.Control(func(fd uintptr) {
			switch netw {
			case "udp4":
				err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_TOS, ecn)
			case "udp6":
				err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_TCLASS, ecn)
			}
		})
		return errors.Join(err, e)
	}}
	return d.Dial(network, addr)
}

// talk sends some messages and waits for each answer.
func talk(network, addr string, ecn int) error {
	c, err := dial(network, addr, ecn)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	buf := make([]byte, 16)
	for range 3 {
		if _, err = c.Write([]byte("hello")); err == nil {
			_, err = c.Read(buf)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// helper runs this program again in a namespace, as another user or in another
// cgroup, to do what TestMain knows under the name; it returns what it prints.
func helper(t *testing.T, ns string, attr *syscall.SysProcAttr, args ...string) string {
	t.Helper()
	out, err := nstest.TryInside(ns, func() ([]byte, error) {
		cmd := exec.Command("/proc/self/exe") // a path that another user can walk
		cmd.Env = append(os.Environ(), "DSCPMARK_HELPER="+strings.Join(args, " "))
		cmd.SysProcAttr = attr
		return cmd.CombinedOutput()
	})
	if err != nil {
		t.Fatalf("helper %q: %v\n%s", args, err, out)
	}
	return string(out)
}

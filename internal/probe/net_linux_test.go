package probe

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
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

// lab is an edge with two uplinks, in namespaces of its own:
//
//	edge  wan0 --- wan  isp0
//	      wan1 --- wan  isp1
//
// with 10.0.1.0/24 and fd01::/64 on the first, 10.0.2.0/24 and fd02::/64 on the
// second, the edge at 2 and the others at 1. Both know 9.9.9.9 and 2001:db8:9::9,
// and answer there to DNS, HTTP and, at port 443, TCP. The edge filters by reverse
// path, strictly, and has the tables and rules of an edge that fails over.
type lab struct {
	edge, isp0, isp1 string
	uplinks          [2]Binding
}

// layout is of table 8711 on.
const layout = `sysctl -qw net.ipv4.conf.all.rp_filter=1 net.ipv4.conf.default.rp_filter=1 net.ipv4.conf.wan0.rp_filter=1 net.ipv4.conf.wan1.rp_filter=1
for f in -4 -6; do
  ip $f rule add pref 20998 fwmark 0x100/0x300 lookup 8711
  ip $f rule add pref 20999 fwmark 0x200/0x300 lookup 8712
  ip $f rule add pref 21000 lookup main suppress_prefixlength 0
  ip $f rule add pref 21010 lookup 8710
  ip $f route add unreachable default metric 4278198272 table 8711
  ip $f route add unreachable default metric 4278198272 table 8712
done
for n in 1 2; do
  dev=wan$((n-1)) table=$((8710+n)) pref=$((21002+n))
  ip route add 10.0.$n.0/24 dev $dev src 10.0.$n.2 table $table
  ip route add default via 10.0.$n.1 dev $dev table $table
  ip route add default via 10.0.$n.1 dev $dev metric ${n}00
  ip rule add pref $pref from 10.0.$n.2 lookup $table
  ip -6 route add fd0$n::/64 dev $dev table $table
  ip -6 route add default via fd0$n::1 dev $dev table $table
  ip -6 route add default via fd0$n::1 dev $dev metric ${n}00
  ip -6 rule add pref $pref from fd0$n::2 lookup $table
done
`

func newLab(t *testing.T) *lab {
	wanted(t)
	id := fmt.Sprintf("probe%d-%04x-", os.Getpid(), rand.IntN(1<<16))
	l := &lab{edge: id + "edge", isp0: id + "isp0", isp1: id + "isp1"}
	for _, ns := range []string{l.edge, l.isp0, l.isp1} {
		t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", ns).Run() })
		nstest.Shell(t, "", "ip netns add "+ns+"; ip -n "+ns+" link set lo up")
	}
	for i, isp := range []string{l.isp0, l.isp1} {
		n := i + 1
		nstest.Shell(t, "", fmt.Sprintf(`ip -n %[1]s link add wan%[4]d type veth peer name wan netns %[2]s
			ip -n %[1]s addr add 10.0.%[3]d.2/24 dev wan%[4]d
			ip -n %[1]s addr add fd0%[3]d::2/64 dev wan%[4]d nodad
			ip -n %[1]s link set wan%[4]d up
			ip -n %[2]s addr add 10.0.%[3]d.1/24 dev wan
			ip -n %[2]s addr add fd0%[3]d::1/64 dev wan nodad
			ip -n %[2]s addr add 9.9.9.9/32 dev lo
			ip -n %[2]s addr add 2001:db8:9::9/128 dev lo nodad
			ip -n %[2]s link set wan up`, l.edge, isp, n, i))
		serve(t, isp)
		dev := fmt.Sprintf("wan%d", i)
		l.uplinks[i] = Binding{
			Interface: dev, Index: index(t, l.edge, dev), Mark: uint32(n) << 8, Mask: 0x300,
			Source4: netip.AddrFrom4([4]byte{10, 0, byte(n), 2}), Source6: netip.MustParseAddr(fmt.Sprintf("fd0%d::2", n)),
		}
	}
	nstest.Shell(t, l.edge, layout)
	l.use(t, 1)
	return l
}

// use makes an uplink the one in use: all others are probed at a standby.
func (l *lab) use(t *testing.T, i int) {
	t.Helper()
	nstest.Shell(t, l.edge, fmt.Sprintf("ip route replace default via 10.0.%[1]d.1 table 8710; ip -6 route replace default via fd0%[1]d::1 dev wan%[2]d table 8710", i+1, i))
}

func index(t *testing.T, ns, dev string) int {
	return nstest.Inside(t, ns, func() (int, error) {
		i, err := net.InterfaceByName(dev)
		if err != nil {
			return 0, err
		}
		return i.Index, nil
	})
}

// slow is how long answers take that are late.
const slow = 300 * time.Millisecond

// Targets of the lab.
var targets = []Target{
	parsed(TargetSpec{ICMP: "9.9.9.9"}),
	parsed(TargetSpec{TCP: "9.9.9.9:443"}),
	parsed(TargetSpec{DNS: "9.9.9.9", Name: "example.org"}),
	parsed(TargetSpec{HTTP: "http://9.9.9.9/generate_204", Host: "check.example.org"}),
	parsed(TargetSpec{HTTP: "http://9.9.9.9/hello", Body: "hello"}),
	parsed(TargetSpec{ICMP: "2001:db8:9::9"}),
	parsed(TargetSpec{TCP: "[2001:db8:9::9]:443"}),
	parsed(TargetSpec{DNS: "2001:db8:9::9", Name: "example.org", Want: "aaaa"}),
	parsed(TargetSpec{HTTP: "http://[2001:db8:9::9]/generate_204"}),
}

func parsed(s TargetSpec) Target {
	t, err := ParseTarget(s)
	if err != nil {
		panic(err)
	}
	return t
}

// serve answers to DNS, HTTP and TCP until the test ends.
func serve(t *testing.T, ns string) {
	var all sync.WaitGroup
	mux := http.NewServeMux()
	mux.HandleFunc("/generate_204", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) })
	mux.HandleFunc("/hello", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "hello, world") })
	mux.HandleFunc("/login", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "<html>Please log in") })
	mux.Handle("/away", http.RedirectHandler("http://portal.example.org/", http.StatusFound))
	mux.HandleFunc("/slow", func(w http.ResponseWriter, _ *http.Request) { time.Sleep(slow); w.WriteHeader(204) })
	web := &http.Server{Handler: mux}
	t.Cleanup(func() { _ = web.Close(); all.Wait() }) // the last of the cleanups here
	for _, host := range []string{"9.9.9.9", "2001:db8:9::9"} {
		listen := func(port string) net.Listener {
			return nstest.Inside(t, ns, func() (net.Listener, error) { return net.Listen("tcp", net.JoinHostPort(host, port)) })
		}
		pages, bare := listen("80"), listen("443")
		names := nstest.Inside(t, ns, func() (net.PacketConn, error) { return net.ListenPacket("udp", net.JoinHostPort(host, "53")) })
		all.Go(func() { _ = web.Serve(pages) })
		all.Go(func() {
			for c, err := bare.Accept(); err == nil; c, err = bare.Accept() {
				all.Go(func() { // says nothing, and closes when something is said
					_ = c.SetDeadline(time.Now().Add(20 * time.Second))
					_, _ = c.Read(make([]byte, 512))
					_ = c.Close()
				})
			}
		})
		all.Go(func() { resolve(names, func() {}) })
		t.Cleanup(func() { _ = bare.Close(); _ = names.Close() })
	}
}

// resolve knows example.org and what is below it, and is slow with slow.example.org.
// It does something before each answer.
func resolve(c net.PacketConn, before func()) {
	buf := make([]byte, 512)
	for {
		n, from, err := c.ReadFrom(buf)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(buf[:n]) != nil || len(m.Questions) != 1 {
			continue
		}
		q := m.Questions[0]
		m.Response = true
		h := dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 60}
		switch q.Type {
		case dnsmessage.TypeA:
			m.Answers = []dnsmessage.Resource{{Header: h, Body: &dnsmessage.AResource{A: [4]byte{192, 0, 2, 1}}}}
		case dnsmessage.TypeAAAA:
			m.Answers = []dnsmessage.Resource{{Header: h, Body: &dnsmessage.AAAAResource{AAAA: [16]byte{0x20, 1}}}}
		}
		if !strings.HasSuffix(q.Name.String(), "example.org.") {
			m.Answers, m.RCode = nil, dnsmessage.RCodeNameError
		}
		if strings.HasPrefix(q.Name.String(), "slow.") {
			time.Sleep(slow)
		}
		before()
		if b, err := m.Pack(); err == nil {
			_, _ = c.WriteTo(b, from)
		}
	}
}

// probe probes in a namespace.
func (l *lab) probe(t *testing.T, p Prober, b Binding, to Target) Result {
	t.Helper()
	return nstest.Inside(t, l.edge, func() (Result, error) { return p.Probe(context.Background(), b, to), nil })
}

// patient is for answers that have to come, impatient for those that do not.
var (
	patient   = Prober{Timeout: 10 * time.Second}
	impatient = Prober{Timeout: 100 * time.Millisecond}
)

// packet is what a tap sees of one.
type packet struct {
	out      bool
	arp, nd  bool // neighbours being looked for
	src, dst netip.Addr
	dscp     int
	size     int // of IP
	flags    byte
	mark     byte // of the tap's own
}

func (p packet) with(a netip.Addr) bool { return p.src == a || p.dst == a }

// tap sees what leaves and arrives at a device.
type tap struct {
	packets chan packet
	in, out int // out is for marks between packets
	index   int
	marks   byte
}

// marker is the protocol of a mark, one of those for experiments.
const marker = 0x88b5

func newTap(t *testing.T, ns, dev string) *tap {
	p := nstest.Inside(t, ns, func() (*tap, error) {
		p := &tap{packets: make(chan packet, 1<<16)}
		link, err := net.InterfaceByName(dev)
		if err != nil {
			return nil, err
		}
		p.index = link.Index
		if p.out, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
			return nil, err
		}
		if p.in, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, int(swap(unix.ETH_P_ALL))); err != nil {
			return nil, err
		}
		return p, errors.Join(
			unix.SetsockoptInt(p.in, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20),
			unix.SetsockoptTimeval(p.in, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 50_000}),
			unix.Bind(p.in, &unix.SockaddrLinklayer{Protocol: swap(unix.ETH_P_ALL), Ifindex: link.Index}))
	})
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		p.read(stop)
	}()
	t.Cleanup(func() { close(stop); <-ended; _, _ = unix.Close(p.in), unix.Close(p.out) })
	return p
}

func swap(n uint16) uint16 { return n<<8 | n>>8 }

func (p *tap) read(stop chan struct{}) {
	buf := make([]byte, 1<<16)
	for {
		n, from, err := unix.Recvfrom(p.in, buf, 0)
		if ll, ok := from.(*unix.SockaddrLinklayer); err == nil && ok {
			if pkt, ok := dissect(buf[:n], swap(ll.Protocol)); ok {
				pkt.out = ll.Pkttype == unix.PACKET_OUTGOING
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

// seen returns what came since the last call. A mark is sent after it, and waited
// for; where that cannot be, the link being down, it is the time that ends it.
func (p *tap) seen() (all []packet) {
	p.marks++
	wait := 5 * time.Second
	if unix.Sendto(p.out, []byte{p.marks}, 0, &unix.SockaddrLinklayer{Protocol: swap(marker), Ifindex: p.index, Halen: 6}) != nil {
		wait = 100 * time.Millisecond
	}
	for {
		select {
		case pkt := <-p.packets:
			if pkt.mark == p.marks {
				return all
			}
			all = append(all, pkt)
		case <-time.After(wait):
			return all
		}
	}
}

func dissect(b []byte, proto uint16) (p packet, ok bool) {
	var next byte
	switch {
	case proto == marker:
		p.mark = b[0]
		return p, true
	case proto == unix.ETH_P_ARP && len(b) >= 28:
		p.arp = true
		p.dst, _ = netip.AddrFromSlice(b[24:28])
		return p, true
	case proto == unix.ETH_P_IP && len(b) >= 20:
		p.size, p.dscp, next = int(binary.BigEndian.Uint16(b[2:])), int(b[1]>>2), b[9]
		p.src, _ = netip.AddrFromSlice(b[12:16])
		p.dst, _ = netip.AddrFromSlice(b[16:20])
		b = b[20:]
	case proto == unix.ETH_P_IPV6 && len(b) >= 40:
		p.size, p.dscp, next = 40+int(binary.BigEndian.Uint16(b[4:])), int(binary.BigEndian.Uint16(b)>>6&63), b[6]
		p.src, _ = netip.AddrFromSlice(b[8:24])
		p.dst, _ = netip.AddrFromSlice(b[24:40])
		b = b[40:]
		if next == unix.IPPROTO_ICMPV6 && len(b) >= 24 && b[0] >= 133 && b[0] <= 137 {
			p.nd = true
			p.dst, _ = netip.AddrFromSlice(b[8:24])
		}
	default:
		return p, false
	}
	if next == unix.IPPROTO_TCP && len(b) >= 20 {
		p.flags = b[13]
	}
	return p, true
}

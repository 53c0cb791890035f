package main

import (
	"encoding/binary"
	"encoding/json"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"trafficup/internal/netshape"
)

// modemBench is an edge node, where the test is, whose up0 leads to a modem with an
// uplink of 10 Mbit/s and a queue of 500 packets, and to a server behind that, 40 ms
// away. By another interface the same server is as far, and nothing waits.
type modemBench struct {
	uplinkBench
	received atomic.Int64 // bytes, by the server
	late     bool         // status --watch begins under load
}

const behind, aside = "10.2.0.2", "10.3.0.2" // the server, by the modem and by the other way

func newModem(t *testing.T) *modemBench {
	t.Helper()
	needLab(t)
	runtime.LockOSThread() // for good: the thread ends with the test
	var server, modem, edge place
	for _, p := range []*place{&server, &modem, &edge} { // the last is where the test stays
		ns, err := netns.New()
		fatal(t, err)
		h, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
		fatal(t, err)
		t.Cleanup(func() { h.Close(); _ = ns.Close() })
		*p = place{ns, h}
	}
	cable(t, edge, "up0", "10.1.0.2/24", modem, "lan0", "10.1.0.1/24")
	cable(t, modem, "out0", "10.2.0.1/24", server, "in0", behind+"/24")
	cable(t, edge, "aside0", "10.3.0.1/24", server, "aside1", aside+"/24")
	edge.via(t, "10.1.0.1")
	server.via(t, "10.2.0.1")
	far := netlink.NetemQdiscAttrs{Latency: 20_000, Limit: 10_000}
	modem.delay(t, "out0", netlink.NetemQdiscAttrs{Latency: 20_000, Limit: 500, Rate64: 10e6 / 8})
	modem.delay(t, "lan0", far)
	edge.delay(t, "aside0", far)
	server.delay(t, "aside1", far)
	b := &modemBench{uplinkBench: uplinkBench{t, t.TempDir(), behind + ":443"}}
	modem.do(t, edge, func() { fatal(t, os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0)) })
	server.do(t, edge, func() { b.serve() })
	return b
}

// place is a network.
type place struct {
	ns netns.NsHandle
	*netlink.Handle
}

// do calls f there, and comes back.
func (p place) do(t *testing.T, back place, f func()) {
	t.Helper()
	fatal(t, netns.Set(p.ns))
	f()
	fatal(t, netns.Set(back.ns))
}

func (p place) link(t *testing.T, name string) netlink.Link {
	t.Helper()
	l, err := p.LinkByName(name)
	fatal(t, err)
	return l
}

// up gives a link an address. Its packets are as large as on a wire, so that a queue
// of 500 is one of 500.
func (p place) up(t *testing.T, name, cidr string) {
	t.Helper()
	l := p.link(t, name)
	a, err := netlink.ParseAddr(cidr)
	fatal(t, err)
	fatal(t, p.AddrAdd(l, a))
	fatal(t, p.LinkSetGSOMaxSegs(l, 1))
	fatal(t, p.LinkSetUp(l))
}

func (p place) via(t *testing.T, gateway string) {
	t.Helper()
	_, everything, err := net.ParseCIDR("0.0.0.0/0")
	fatal(t, err)
	fatal(t, p.RouteAdd(&netlink.Route{Dst: everything, Gw: net.ParseIP(gateway)}))
}

func (p place) delay(t *testing.T, name string, n netlink.NetemQdiscAttrs) {
	t.Helper()
	a := netlink.QdiscAttrs{LinkIndex: p.link(t, name).Attrs().Index, Handle: 1 << 16, Parent: netlink.HANDLE_ROOT}
	fatal(t, p.QdiscAdd(netlink.NewNetem(a, n)))
}

func cable(t *testing.T, from place, name, cidr string, to place, peer, peerCIDR string) {
	t.Helper()
	a := netlink.NewLinkAttrs()
	a.Name = name
	fatal(t, from.LinkAdd(&netlink.Veth{LinkAttrs: a, PeerName: peer, PeerNamespace: netlink.NsFd(to.ns)}))
	from.up(t, name, cidr)
	to.up(t, peer, peerCIDR)
}

// serve swallows what comes by TCP and sends back what comes by UDP.
func (b *modemBench) serve() {
	l, err := net.Listen("tcp4", ":443")
	fatal(b.t, err)
	p, err := net.ListenPacket("udp4", ":7")
	fatal(b.t, err)
	var all sync.WaitGroup
	b.t.Cleanup(func() { _ = l.Close(); _ = p.Close(); all.Wait() })
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { _, _ = io.Copy(counter{&b.received}, c); _ = c.Close() })
		}
	})
	all.Go(func() {
		data := make([]byte, 100)
		for {
			n, from, err := p.ReadFrom(data)
			if err != nil {
				return
			}
			_, _ = p.WriteTo(data[:n], from)
		}
	})
}

type counter struct{ n *atomic.Int64 }

func (c counter) Write(b []byte) (int, error) {
	c.n.Add(int64(len(b)))
	return len(b), nil
}

// marked makes connections with a DSCP, from the first packet on.
func marked(dscp int) *net.Dialer {
	return &net.Dialer{Timeout: 10 * time.Second, Control: func(_, _ string, c syscall.RawConn) (err error) {
		e := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_TOS, dscp<<2) })
		if e != nil {
			return e
		}
		return err
	}}
}

// upload keeps a connection marked LE full until stop is called.
func (b *uplinkBench) upload() (stop func()) {
	b.t.Helper()
	c, err := marked(1).Dial("tcp4", b.far)
	fatal(b.t, err)
	var all sync.WaitGroup
	all.Go(func() {
		data := make([]byte, 64<<10)
		for {
			if _, err := c.Write(data); err != nil {
				return
			}
		}
	})
	return func() {
		_ = c.(*net.TCPConn).SetLinger(0) // what waits in the kernel is not sent any more
		_ = c.Close()
		all.Wait()
	}
}

const (
	pings        = 100
	pingEvery    = 50 * time.Millisecond
	pingPatience = 1500 * time.Millisecond // one that is lost took as long
)

// ping measures the mean delay of small packets with EF by both ways, meanwhile.
func (b *modemBench) ping() (delay, beside time.Duration) {
	b.t.Helper()
	start := time.Now()
	var all sync.WaitGroup
	var conns []net.Conn
	for host, mean := range map[string]*time.Duration{behind: &delay, aside: &beside} {
		c, err := marked(46).Dial("udp4", host+":7")
		fatal(b.t, err)
		defer func() { _ = c.Close() }()
		conns = append(conns, c)
		all.Go(func() { *mean = meanOf(c, start) })
	}
	for range pings {
		for _, c := range conns {
			_, err := c.Write(binary.BigEndian.AppendUint64(nil, uint64(time.Since(start))))
			fatal(b.t, err)
		}
		time.Sleep(pingEvery)
	}
	for _, c := range conns {
		fatal(b.t, c.SetReadDeadline(time.Now().Add(pingPatience)))
	}
	all.Wait()
	return delay, beside
}

// meanOf reads packets that say when, after start, they were sent.
func meanOf(c net.Conn, start time.Time) time.Duration {
	data := make([]byte, 8)
	sum, lost := time.Duration(0), time.Duration(pings)
	for ; lost > 0; lost-- {
		if _, err := io.ReadFull(c, data); err != nil {
			break
		}
		sum += time.Since(start) - time.Duration(binary.BigEndian.Uint64(data))
	}
	return (sum + lost*pingPatience) / pings
}

// burden is what two uploads at once do to a third party.
type burden struct {
	delay, beside time.Duration // of EF packets; by the other way it is what the machine takes
	rate          float64       // bit/s, of the uploads
	tins          map[string]uint64
	packets       uint64
	readings      []netshape.Reading // of status --watch, while there was load
}

// load shapes up0 as args say, if they do, and has two uploads go on.
func (b *modemBench) load(args ...string) (l burden) {
	b.t.Helper()
	var watch *running
	if len(args) > 0 {
		b.run(plus([]string{"apply", "--confirm-within", "0", "--iface", "up0"}, args...)...).is(0, "done")
	}
	begin := func() { watch = b.start("status", "--watch", "--json", "--target", b.far) }
	if len(args) > 0 && !b.late {
		begin()
		b.soon("the delay without load", func() bool { return strings.Contains(watch.said(), `"idle_ms":`) })
	}
	for range 2 {
		defer b.upload()()
	}
	time.Sleep(2500 * time.Millisecond)
	if len(args) > 0 && b.late {
		begin()
		b.soon("word of the rate", func() bool { return strings.Contains(watch.said(), `"too_high":`) })
	}
	start, before := time.Now(), b.received.Load()
	l.delay, l.beside = b.ping()
	l.rate = float64(b.received.Load()-before) * 8 / time.Since(start).Seconds()
	if watch != nil {
		fatal(b.t, watch.cmd.Process.Signal(syscall.SIGTERM))
		fatal(b.t, watch.cmd.Wait())
		l.readings = b.readings(watch.said())
		q := b.status()["up0"].Root
		l.packets, l.tins = q.Stats.Packets, map[string]uint64{}
		for _, t := range q.Tins {
			l.tins[t.Name] = t.Packets
		}
	}
	b.t.Logf("%v: EF %v, beside %v; uploads %.2f Mbit/s, tins %v, %d readings", args, l.delay, l.beside, l.rate/1e6, l.tins, len(l.readings))
	return l
}

// readings are those under load.
func (b *modemBench) readings(said string) (list []netshape.Reading) {
	b.t.Helper()
	for line := range strings.Lines(said) {
		var r netshape.Reading
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			b.t.Fatal(line, err)
		}
		if r.Sent > r.Rate/2 {
			list = append(list, r)
		}
	}
	return list
}

// status is that of all interfaces that were shaped.
func (u *uplinkBench) status() map[string]netshape.InterfaceStatus {
	u.t.Helper()
	var s netshape.Status
	fatal(u.t, json.Unmarshal([]byte(u.run("status", "--json").is(0).stdout), &s))
	all := map[string]netshape.InterfaceStatus{}
	for _, i := range s.Interfaces {
		all[i.Name] = i
	}
	return all
}

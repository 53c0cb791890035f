package tc

import (
	"cmp"
	"encoding/binary"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// uplink is an edge node, where the test is, behind a modem whose uplink has
// 10 Mbit/s and a queue of 500 packets, and a server 40 ms away.
type uplink struct {
	wan      int          // the edge node's interface
	received atomic.Int64 // bytes, by the server
}

const modemAddress, serverAddress = "10.1.0.1", "10.2.0.2"

func newUplink(t *testing.T) *uplink {
	t.Helper()
	edge := inNamespace(t)
	modem, server := another(t, edge), another(t, edge)
	veth := func(from, to netns.NsHandle, name, peer, address, peerAddress string) {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = name
		h, err := netlink.NewHandleAt(from, unix.NETLINK_ROUTE)
		ok(t, err)
		ok(t, h.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: peer, PeerNamespace: netlink.NsFd(to)}))
		up(t, from, name, address)
		up(t, to, peer, peerAddress)
	}
	veth(edge, modem, "wan", "lan", "10.1.0.2/24", modemAddress+"/24")
	veth(modem, server, "up", "srv", "10.2.0.1/24", serverAddress+"/24")
	route(t, edge, modemAddress)
	route(t, server, "10.2.0.1")
	in(t, modem, edge, func() {
		ok(t, os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0))
		for name, netem := range map[string]netlink.NetemQdiscAttrs{
			"up":  {Latency: 20_000, Limit: 500, Rate64: 10e6 / 8},
			"lan": {Latency: 20_000, Limit: 10_000},
		} {
			attrs := netlink.QdiscAttrs{LinkIndex: index(t, name), Handle: 1 << 16, Parent: netlink.HANDLE_ROOT}
			ok(t, netlink.QdiscAdd(netlink.NewNetem(attrs, netem)))
		}
	})
	u := &uplink{wan: index(t, "wan")}
	in(t, server, edge, func() { u.serve(t) })
	return u
}

// another makes a namespace and comes back.
func another(t *testing.T, from netns.NsHandle) netns.NsHandle {
	t.Helper()
	ns, err := netns.New()
	ok(t, err)
	ok(t, netns.Set(from))
	t.Cleanup(func() { ns.Close() })
	return ns
}

func in(t *testing.T, ns, back netns.NsHandle, do func()) {
	t.Helper()
	ok(t, netns.Set(ns))
	do()
	ok(t, netns.Set(back))
}

// up gives a link an address. Its packets are as large as on a wire, so that a
// queue of 500 is one of 500.
func up(t *testing.T, ns netns.NsHandle, name, address string) {
	t.Helper()
	h, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
	ok(t, err)
	l, err := h.LinkByName(name)
	ok(t, err)
	a, err := netlink.ParseAddr(address)
	ok(t, err)
	ok(t, h.AddrAdd(l, a))
	ok(t, h.LinkSetGSOMaxSegs(l, 1))
	ok(t, h.LinkSetUp(l))
}

func route(t *testing.T, ns netns.NsHandle, via string) {
	t.Helper()
	h, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
	ok(t, err)
	_, everything, _ := net.ParseCIDR("0.0.0.0/0")
	ok(t, h.RouteAdd(&netlink.Route{Dst: everything, Gw: net.ParseIP(via)}))
}

// serve swallows what comes by TCP and sends back what comes by UDP.
func (u *uplink) serve(t *testing.T) {
	l, err := net.Listen("tcp4", serverAddress+":9")
	ok(t, err)
	p, err := net.ListenPacket("udp4", serverAddress+":7")
	ok(t, err)
	var wg sync.WaitGroup
	t.Cleanup(func() { l.Close(); p.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { defer c.Close(); io.Copy(io.Discard, countingReader{c, &u.received}) })
		}
	})
	wg.Go(func() {
		b := make([]byte, 1500)
		for {
			n, from, err := p.ReadFrom(b)
			if err != nil {
				return
			}
			p.WriteTo(b[:n], from)
		}
	})
}

type countingReader struct {
	io.Reader
	n *atomic.Int64
}

func (r countingReader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	r.n.Add(int64(n))
	return n, err
}

// marked makes connections with a DSCP, from the first packet on.
func marked(dscp int) *net.Dialer {
	return &net.Dialer{Timeout: 10 * time.Second, Control: func(_, _ string, c syscall.RawConn) (err error) {
		if e := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_TOS, dscp<<2) }); e != nil {
			return e
		}
		return err
	}}
}

// upload sends as fast as it may until stop is called.
func (u *uplink) upload(t *testing.T, dscp int) (stop func()) {
	t.Helper()
	c, err := marked(dscp).Dial("tcp4", serverAddress+":9")
	ok(t, err)
	ok(t, c.(*net.TCPConn).SetLinger(0)) // what is in its queues is not sent any more
	var wg sync.WaitGroup
	wg.Go(func() {
		b := make([]byte, 64<<10)
		for {
			if _, err := c.Write(b); err != nil {
				return
			}
		}
	})
	return func() { c.Close(); wg.Wait() }
}

// ping measures the mean time of n small packets with EF there and back. One
// that is lost took as long as is waited for it.
func (u *uplink) ping(t *testing.T, n int) time.Duration {
	t.Helper()
	const every, patience = 50 * time.Millisecond, 1500 * time.Millisecond
	c, err := marked(46).Dial("udp4", serverAddress+":7")
	ok(t, err)
	defer c.Close()
	took := slices.Repeat([]time.Duration{patience}, n)
	sent := make([]time.Time, n)
	var mu sync.Mutex
	var wg sync.WaitGroup
	wg.Go(func() {
		b := make([]byte, 8)
		for range n {
			if _, err := io.ReadFull(c, b); err != nil {
				return
			}
			mu.Lock()
			i := binary.BigEndian.Uint64(b)
			took[i] = time.Since(sent[i])
			mu.Unlock()
		}
	})
	for i := range n {
		mu.Lock()
		sent[i] = time.Now()
		mu.Unlock()
		_, err := c.Write(binary.BigEndian.AppendUint64(nil, uint64(i)))
		ok(t, err)
		time.Sleep(every)
	}
	ok(t, c.SetReadDeadline(time.Now().Add(patience)))
	wg.Wait()
	var sum time.Duration
	for _, d := range took {
		sum += d
	}
	return sum / time.Duration(n)
}

// idle is the delay on a link with nothing else.
func (u *uplink) idle(t *testing.T) time.Duration {
	base := u.ping(t, 20)
	t.Logf("idle: %v", base)
	return base
}

// loaded is what two uploads do to a third party: the delay of its packets. It
// returns the shaper, too, as it is under load.
func (u *uplink) loaded(t *testing.T, s Shaper) (delay time.Duration, q Qdisc) {
	t.Helper()
	ok(t, DeleteRoot(u.wan))
	if s.Kind != "" {
		ok(t, SetRoot(u.wan, s))
	}
	var stops []func()
	for range 2 {
		stops = append(stops, u.upload(t, 1))
	}
	time.Sleep(2500 * time.Millisecond)
	start, before := time.Now(), u.received.Load()
	delay = u.ping(t, pings)
	rate := float64(u.received.Load()-before) * 8 / 1e6 / time.Since(start).Seconds()
	q = root(t, u.wan)
	t.Logf("%v at %d bit/s: %v, uploads %.2f Mbit/s, tins %v, backlog %d", q.Kind, cmp.Or(s.Cake.Rate, s.HTB.Rate), delay, rate, packets(q), q.Stats.Backlog)
	for _, stop := range stops {
		stop()
	}
	time.Sleep(time.Second) // the modem's queue runs empty
	return delay, q
}

const pings = 100

// TestLatencyUnshaped holds that the queue is the modem's, and fills, without a
// shaper and with one whose rate is above the link's.
func TestLatencyUnshaped(t *testing.T) {
	needLab(t)
	u := newUplink(t)
	base := u.idle(t)
	for _, s := range []Shaper{{}, cake(Cake{Rate: 12e6, Diffserv: Diffserv4, Flows: DualSrcHost, SplitGSO: true})} {
		if delay, _ := u.loaded(t, s); delay < base+210*time.Millisecond {
			t.Errorf("packets took only %v, with an idle link %v", delay, base)
		}
	}
}

// TestLatencyShaped holds that with a rate below the link's nobody waits for
// the uploads, whose packets have a tin of their own.
func TestLatencyShaped(t *testing.T) {
	needLab(t)
	u := newUplink(t)
	most := u.idle(t) + 20*time.Millisecond
	for _, s := range []Shaper{
		cake(Cake{Rate: 9e6, Diffserv: Diffserv4, Flows: DualSrcHost, SplitGSO: true}), {Kind: KindHTB, HTB: HTB{Rate: 9e6, Tins: true}},
	} {
		delay, q := u.loaded(t, s)
		if delay > most { // once more: a machine that is busy is late, too, but not always
			delay, q = u.loaded(t, s)
		}
		if delay > most {
			t.Errorf("packets took %v, want at most %v", delay, most)
		}
		n := packets(q)
		urgent := cmp.Or(n["Voice"], n["Interactive"])
		if urgent < pings || urgent > 2*pings || n["Bulk"] < 9*(q.Stats.Packets-urgent)/10 {
			t.Errorf("tins have %v of %d packets", n, q.Stats.Packets)
		}
	}
}

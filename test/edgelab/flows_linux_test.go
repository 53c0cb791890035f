package edgelab

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"
)

// answer has the targets in a provider's namespace answer to names, and give back
// what port 7 of one of them is sent.
func (b *bench) answer(ns string) {
	b.t.Helper()
	listen := func(network, at string, f func(io.Closer)) {
		var open io.Closer
		fatal(b.t, b.within(ns, func() (err error) {
			if network == "tcp4" {
				open, err = net.Listen(network, at)
			} else {
				open, err = net.ListenPacket(network, at)
			}
			return err
		}))
		b.t.Cleanup(func() { _ = open.Close() })
		go f(open)
	}
	for _, target := range []string{"9.9.9.9", "8.8.8.8"} {
		listen("udp4", target+":53", func(c io.Closer) { packets(c.(net.PacketConn), named) })
	}
	listen("udp4", "9.9.9.9:7", func(c io.Closer) { packets(c.(net.PacketConn), func(p []byte) []byte { return p }) })
	listen("tcp4", "9.9.9.9:7", func(l io.Closer) {
		for {
			c, err := l.(net.Listener).Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	})
}

// packets answers each until the socket is closed.
func packets(c net.PacketConn, answer func([]byte) []byte) {
	buf := make([]byte, 1500)
	for {
		n, from, err := c.ReadFrom(buf)
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err == nil:
			_, _ = c.WriteTo(answer(buf[:n]), from)
		}
	}
}

// named gives every name one address.
func named(query []byte) []byte {
	var m dnsmessage.Message
	if m.Unpack(query) != nil || len(m.Questions) == 0 {
		return nil
	}
	m.Response = true
	m.Answers = []dnsmessage.Resource{{
		Header: dnsmessage.ResourceHeader{Name: m.Questions[0].Name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET},
		Body:   &dnsmessage.AResource{A: [4]byte{192, 0, 2, 1}},
	}}
	answer, _ := m.Pack()
	return answer
}

// flow is a connection of the host in the LAN that lasts: it says something each
// tenth of a second and hears it again. One of TCP that breaks is made anew at once;
// one that is silent is waited for.
type flow struct {
	mu     sync.Mutex
	last   time.Time // guarded by mu: when that was said which was heard last
	broken int       // guarded by mu: connections that ended
}

// heard reports that something was heard that was said after t.
func (f *flow) heard(t time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last.After(t)
}

func (f *flow) breaks() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.broken
}

// flow begins one, of network udp4 or tcp4.
func (b *bench) flow(network string) *flow {
	f := &flow{}
	ctx, cancel := context.WithCancel(b.t.Context())
	var all sync.WaitGroup
	b.t.Cleanup(func() { cancel(); all.Wait() })
	all.Go(func() {
		for ctx.Err() == nil {
			var c net.Conn
			if err := b.within("lan", func() (err error) {
				c, err = (&net.Dialer{Timeout: time.Second}).DialContext(ctx, network, "9.9.9.9:7")
				return err
			}); err == nil {
				f.talk(ctx, c)
			}
			pause(ctx, 100*time.Millisecond)
		}
	})
	return f
}

// talk ends with the connection.
func (f *flow) talk(ctx context.Context, c net.Conn) {
	ctx, cancel := context.WithCancel(ctx)
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	defer c.Close()
	go func() {
		defer cancel()
		buf := make([]byte, 8)
		for {
			_, err := io.ReadFull(c, buf)
			if udp := errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.EHOSTUNREACH) || errors.Is(err, syscall.ENETUNREACH); err != nil && !(udp && c.LocalAddr().Network() == "udp") {
				break
			} else if err != nil {
				continue // a router said so; it may be another one soon
			}
			f.mu.Lock()
			f.last = time.Unix(0, int64(binary.BigEndian.Uint64(buf)))
			f.mu.Unlock()
		}
		f.mu.Lock()
		f.broken++
		f.mu.Unlock()
	}()
	for ctx.Err() == nil {
		_, err := c.Write(binary.BigEndian.AppendUint64(nil, uint64(time.Now().UnixNano())))
		if err != nil && c.LocalAddr().Network() == "tcp" {
			return
		}
		pause(ctx, 100*time.Millisecond)
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// recovers waits until a flow is heard again, and returns how long it took.
func (b *bench) recovers(what string, f *flow, within time.Duration) time.Duration {
	b.t.Helper()
	since := time.Now()
	return b.soon(what, within, func() bool { return f.heard(since) })
}

// tracked are the flows that the kernel keeps of those answered to an address.
func (b *bench) tracked(replyDst string) (all []string) {
	b.t.Helper()
	to := netip.MustParseAddr(replyDst).AsSlice()
	fatal(b.t, b.within("edge", func() error {
		flows, err := netlink.ConntrackTableList(netlink.ConntrackTable, unix.AF_INET)
		for _, f := range flows {
			if f.Reverse.DstIP.Equal(to) && f.Forward.DstPort == 7 {
				all = append(all, f.Forward.SrcIP.String()+" "+f.Reverse.DstIP.String())
			}
		}
		return err
	}))
	slices.Sort(all)
	return all
}

// static gives what leaves by an uplink an address that is written down, and never
// notices by itself that a flow goes another way.
const static = "oifname wan0 snat to 10.0.0.2; oifname wan1 snat to 10.0.1.2"

// begun is an edge node on which failover chose the first uplink.
func begun(t *testing.T, config, nat string) *bench {
	t.Helper()
	b := newBench(t, config, nat)
	b.begin()
	return b
}

func (b *bench) begin() {
	b.t.Helper()
	b.start()
	b.soon("the first choice", 30*time.Second, func() bool { return b.switches("leo") == 1 && b.active() == "leo" })
}

// fail has the first provider forget everything, until the other uplink carries.
func (b *bench) fail() (took time.Duration) {
	b.t.Helper()
	n := b.switches("lte")
	b.in("isp0", drop(""))
	return b.soon("failover", 20*time.Second, func() bool { return b.switches("lte") > n && b.active() == "lte" })
}

// mend has it work again, until it carries.
func (b *bench) mend() {
	b.t.Helper()
	n := b.switches("leo")
	b.in("isp0", forgive)
	b.soon("failback", 60*time.Second, func() bool { return b.switches("leo") > n && b.active() == "leo" })
}

// Connections through the edge node go on or break at once, so that they can be made
// anew: after a failover and after going back, however addresses are translated.
func TestFlows(t *testing.T) {
	t.Parallel()
	for name, nat := range map[string]string{"masquerade": masquerade, "static": static} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := begun(t, quick, nat)
			udp, tcp := b.flow("udp4"), b.flow("tcp4")
			b.recovers("udp", udp, 2*time.Second)
			b.recovers("tcp", tcp, 2*time.Second)
			took := b.fail()
			// What is sent again comes at intervals that double: at most an outage apart.
			t.Logf("failover after %v, then udp after %v, tcp after %v", took, b.recovers("udp", udp, 2*time.Second), b.recovers("tcp", tcp, took+time.Second))
			if left := b.tracked("10.0.0.2"); len(left) > 0 {
				t.Errorf("tracked still: %v", left)
			}
			b.mend()
			t.Logf("going back, udp after %v, tcp after %v", b.recovers("udp", udp, 2*time.Second), b.recovers("tcp", tcp, 2*time.Second))
			if n := tcp.breaks(); n != 2 {
				t.Errorf("the connection broke %d times, want once for each switch", n)
			}
		})
	}
}

// After going back connections by the other uplink are cut when it is configured.
// Behind a fixed address they hang until then, and new ones do not.
func TestFlushAfterGoingBack(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		after string
		cut   bool
	}{{"5s", true}, {"-1s", false}} {
		t.Run(c.after, func(t *testing.T) {
			t.Parallel()
			b := begun(t, quick+"  flush_failback: "+c.after+"\n", static)
			b.fail()
			udp := b.flow("udp4")
			b.recovers("udp", udp, 2*time.Second)
			b.mend()
			switched := time.Now()
			b.reach()
			if before := b.tracked("10.0.1.2"); len(before) != 1 {
				t.Fatalf("tracked: %v, want the one that is to be cut", before)
			}
			if c.cut {
				b.recovers("udp", udp, 7*time.Second)
				if after := time.Since(switched); after < 4*time.Second {
					t.Errorf("cut after %v", after)
				}
				return
			}
			time.Sleep(4 * time.Second)
			if left := b.tracked("10.0.1.2"); len(left) != 1 {
				t.Errorf("tracked: %v, want the one that is not to be cut", left)
			}
		})
	}
}

// While no uplink works nothing is cut, not even what was to be.
func TestNothingIsCutWhenAllIsDown(t *testing.T) {
	t.Parallel()
	b := begun(t, quick+"  flush_failback: 6s\n", static)
	b.fail()
	udp := b.flow("udp4")
	b.recovers("udp", udp, 2*time.Second)
	b.mend()
	udp2 := b.flow("udp4")
	b.recovers("udp", udp2, 2*time.Second)
	b.in("isp1", drop(""))
	b.in("isp0", drop(""))
	b.soon("all down", 20*time.Second, func() bool { return strings.Contains(b.said.String(), "no uplink answers") })
	before := [][]string{b.tracked("10.0.0.2"), b.tracked("10.0.1.2")}
	if len(before[0]) == 0 || len(before[1]) == 0 {
		t.Fatalf("tracked: %v, want flows of both", before)
	}
	time.Sleep(8 * time.Second) // beyond the time of what was to be cut
	if after := [][]string{b.tracked("10.0.0.2"), b.tracked("10.0.1.2")}; !reflect.DeepEqual(after, before) {
		t.Errorf("tracked were %v, and are %v", before, after)
	}
	if b.active() != "leo" || b.switches("leo") != 2 || b.switches("lte") != 1 {
		t.Errorf("it switched with nowhere to go\n%s", b.said)
	}
	b.in("isp0", forgive)
	b.recovers("udp", udp2, 3*time.Second)
	b.soon("the cut that waited", 15*time.Second, func() bool { return len(b.tracked("10.0.1.2")) == 0 })
}

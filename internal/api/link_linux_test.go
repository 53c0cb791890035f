package api

import (
	"bufio"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestLinkSamples(t *testing.T) {
	s := newRawServer(t, always(created))
	c := newTestClient(t, s.url(), nil)
	for i := range 5 {
		o := c.Send(t.Context(), record(i))
		l := o.Link
		if l == nil {
			t.Fatalf("no sample: %+v", o)
		}
		// One request is one segment here; what was sent before is not counted again.
		if l.RTT <= 0 || l.RTT > o.Duration+time.Second || l.MinRTT <= 0 || l.MinRTT > l.RTT+l.RTTVar || l.Segments != 1 || l.Retransmits != 0 || l.Lost != 0 {
			t.Errorf("send %d: %+v", i, *l)
		}
	}
	if s.conns.Load() != 1 {
		t.Fatalf("%d connections", s.conns.Load())
	}
}

// onSocket runs f on a connection's file descriptor.
func onSocket(t *testing.T, c net.Conn, f func(fd int) error) {
	t.Helper()
	rc, err := c.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	cerr := rc.Control(func(fd uintptr) { err = f(int(fd)) })
	if cerr != nil || err != nil {
		t.Fatal(cerr, err)
	}
}

// The server's socket drops what arrives until the client has sent it again.
func TestRetransmitsAreCounted(t *testing.T) {
	conns := make(chan net.Conn, 1)
	s := newRawServer(t, func(s *rawServer, c net.Conn, br *bufio.Reader) {
		conns <- c
		always(created)(s, c, br)
	})
	c := newTestClient(t, s.url(), nil)
	if o := c.Send(t.Context(), record(1)); o.Class != Acked {
		t.Fatalf("%+v", o)
	}
	near, far := c.idle[0], <-conns
	drop := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: 0}}
	onSocket(t, far, func(fd int) error {
		return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &drop[0]})
	})
	done := make(chan Outcome, 1)
	go func() { done <- c.Send(t.Context(), record(2)) }()
	for repeats := uint32(0); repeats < 2; time.Sleep(time.Millisecond) {
		onSocket(t, near.raw.Conn, func(fd int) error {
			info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
			repeats = info.Total_retrans
			return err
		})
	}
	onSocket(t, far, func(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DETACH_FILTER, 0) })
	o := <-done
	if o.Class != Acked || o.Link == nil || o.Link.Retransmits < 2 || o.Link.Segments != o.Link.Retransmits+1 || o.Link.Lost == 0 {
		t.Fatalf("%+v, link %+v", o, o.Link)
	}
	if o := c.Send(t.Context(), record(3)); o.Link == nil || o.Link.Retransmits != 0 || o.Link.Lost != 0 {
		t.Errorf("counted again: %+v", o.Link)
	}
}

// An attempt that ends in silence says how the link fared all the same.
func TestLinkSampleOfATimeout(t *testing.T) {
	s := newRawServer(t, func(_ *rawServer, _ net.Conn, br *bufio.Reader) { io.Copy(io.Discard, br) })
	c := newTestClient(t, s.url(), func(cfg *Config) { cfg.RequestTimeout = 20 * time.Millisecond })
	if o := c.Send(t.Context(), record(1)); o.Class != Retry || o.Link == nil || o.Link.Segments != 1 || o.Link.RTT <= 0 {
		t.Errorf("%+v, link %+v", o, o.Link)
	}
}

// What is sent again to a side that does not read is no loss; to one that does, it is.
func TestShut(t *testing.T) {
	for _, tc := range []struct {
		info unix.TCPInfo
		want bool
	}{
		{unix.TCPInfo{Snd_wnd: 0, Notsent_bytes: 700_000, Busy_time: 1000, Rwnd_limited: 990}, true},
		{unix.TCPInfo{Snd_wnd: 9000, Notsent_bytes: 700_000, Busy_time: 1000, Rwnd_limited: 990}, false}, // a small window
		{unix.TCPInfo{Snd_wnd: 0, Notsent_bytes: 0, Busy_time: 1000, Rwnd_limited: 990}, false},          // nothing waits
		{unix.TCPInfo{Snd_wnd: 0, Notsent_bytes: 700_000, Busy_time: 1000, Rwnd_limited: 0}, false},      // a kernel that does not know windows
	} {
		if got := shut(&tc.info); got != tc.want {
			t.Errorf("%+v: %v", tc.info, got)
		}
	}
}

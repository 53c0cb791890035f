package api

import (
	"context"
	"fmt"
	"math"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"
)

// socket is a connection that can look whether anything has arrived.
type socket struct {
	net.Conn
	sys     syscall.RawConn // nil for a pipe
	looking bool            // Read does not wait: without data it fails as if its deadline had passed
}

func newSocket(c net.Conn) *socket {
	s := &socket{Conn: c}
	if sc, ok := c.(syscall.Conn); ok {
		s.sys, _ = sc.SyscallConn() // fails on a closed one, which the first write will tell
	}
	return s
}

func (s *socket) Read(p []byte) (int, error) {
	if s.looking && s.silent() {
		return 0, os.ErrDeadlineExceeded
	}
	return s.Conn.Read(p)
}

// silent reports that s is open and nothing has arrived, as far as can be seen.
func (s *socket) silent() bool {
	if s.sys == nil {
		return true
	}
	silent := false
	err := s.sys.Read(func(fd uintptr) bool {
		silent = peekSilent(fd)
		return true
	})
	return err == nil && silent
}

type dialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

// NewDialer returns cfg.Dial, else a dialer with the socket options. Every call
// of that one resolves the name again. What the system refuses surfaces with the
// first connection, as ErrSocket, but for a mark, of which cfg.Unmarked hears.
func NewDialer(cfg Config) (func(ctx context.Context, network, addr string) (net.Conn, error), error) {
	if cfg.Dial != nil {
		return cfg.Dial, nil
	}
	o := cfg.Socket
	if err := o.check(); err != nil {
		return nil, err
	}
	d := &net.Dialer{KeepAlive: o.KeepAlive, KeepAliveConfig: net.KeepAliveConfig{Enable: o.KeepAlive > 0, Idle: o.KeepAlive, Interval: o.KeepAlive}}
	if o.Source != "" {
		ip, err := netip.ParseAddr(o.Source)
		if err != nil {
			return nil, fmt.Errorf("source address %q: want an IP address of this machine", o.Source)
		}
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(ip.Unmap(), 0))
	}
	if o.DSCP > 0 || o.Interface != "" || o.UserTimeout > 0 || o.Congestion != "" {
		var err error
		if d.Control, err = o.control(cfg.Unmarked); err != nil {
			return nil, err
		}
	}
	return d.DialContext, nil
}

// check finds what no system would take.
func (o SocketOptions) check() error {
	const maxName = 15 // bytes of an interface's or algorithm's name
	switch {
	case o.DSCP < -1 || o.DSCP > 63:
		return fmt.Errorf("dscp %d: want 0 to 63, or -1 to leave it", o.DSCP)
	case o.UserTimeout < 0 || o.UserTimeout.Milliseconds() > math.MaxInt32:
		return fmt.Errorf("tcp user timeout %v: want a duration from 0 to 24 days", o.UserTimeout)
	case o.UserTimeout > 0 && o.UserTimeout < time.Millisecond:
		return fmt.Errorf("tcp user timeout %v: want 1ms or more", o.UserTimeout)
	case len(o.Interface) > maxName || !printable(o.Interface, false):
		return fmt.Errorf("interface %q: not the name of one", o.Interface)
	case len(o.Congestion) > maxName || !printable(o.Congestion, false):
		return fmt.Errorf("congestion control %q: not the name of one", o.Congestion)
	}
	return nil
}

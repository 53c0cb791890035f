package probe

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// conn is a socket of one probe. It is closed with a reset, if TCP.
type conn struct {
	*os.File
	raw   syscall.RawConn
	stop  func() bool
	whole bool // what is received begins with the IP header
}

// socket returns one that is bound to the uplink and marked. It has sent nothing.
func (b Binding) socket(dst netip.Addr, kind, protocol int) (fd int, err error) {
	src, err := b.source(dst)
	if err != nil {
		return -1, err
	}
	family := unix.AF_INET6
	if dst.Is4() {
		family = unix.AF_INET
	}
	fd, err = unix.Socket(family, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, protocol)
	if err != nil {
		return -1, fmt.Errorf("make a socket: %w", err)
	}
	if err = b.dress(fd, dst.Is4(), src); err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func (b Binding) dress(fd int, v4 bool, src netip.Addr) error {
	if err := setMark(fd, b.Mark); err != nil {
		return err
	}
	var err error
	if b.Device {
		if err = unix.BindToDevice(fd, b.Interface); err != nil {
			return fmt.Errorf("%w: bind to %s: %w", ErrNoRoute, b.Interface, err)
		}
	}
	if v4 { // errors that ICMP brings are told at once, not only that of a port
		err = errors.Join(unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_TOS, b.tos()),
			unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_RECVERR, 1))
	} else {
		err = errors.Join(unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_TCLASS, b.tos()),
			unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVERR, 1))
	}
	if err != nil {
		return fmt.Errorf("set options: %w", err)
	}
	if err = unix.Bind(fd, sockaddr(netip.AddrPortFrom(src, 0))); err != nil {
		return fmt.Errorf("%w: bind to %s: %w", ErrNoSource, src, err)
	}
	return nil
}

func setMark(fd int, mark uint32) error {
	if mark == 0 {
		return nil // which every socket has, and which needs no right
	}
	err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, int(mark))
	if errors.Is(err, unix.EPERM) {
		return fmt.Errorf("%w: to mark packets (SO_MARK) needs CAP_NET_ADMIN: %w", ErrNoRights, err)
	}
	if err != nil {
		return fmt.Errorf("SO_MARK %#x: %w", mark, err)
	}
	return nil
}

func sockaddr(a netip.AddrPort) unix.Sockaddr {
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Addr: a.Addr().As4(), Port: int(a.Port())}
	}
	return &unix.SockaddrInet6{Addr: a.Addr().As16(), Port: int(a.Port())}
}

// connect makes a conn of fd, which it owns from then on, and ends when ctx does.
// A handshake has only begun.
func connect(ctx context.Context, fd int, to netip.AddrPort) (*conn, error) {
	err := unix.Connect(fd, sockaddr(to))
	if err != nil && !errors.Is(err, unix.EINPROGRESS) {
		_ = unix.Close(fd)
		return nil, sending(err)
	}
	f := os.NewFile(uintptr(fd), "probe")
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	end, _ := ctx.Deadline()
	if err = f.SetDeadline(end); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	stop := context.AfterFunc(ctx, func() { _ = f.SetDeadline(time.Unix(1, 0)) })
	return &conn{File: f, raw: raw, stop: stop}, nil
}

// Close does not wait for anything.
func (c *conn) Close() error {
	c.stop()
	return c.File.Close()
}

// send sends a datagram.
func (c *conn) send(b []byte) error {
	_, err := c.Write(b)
	return sending(err)
}

// receive waits for a datagram, or for an ICMP message that ends the waiting.
func (c *conn) receive(b []byte) (n int, from netip.Addr, err error) {
	e := c.raw.Read(func(fd uintptr) bool {
		var sa unix.Sockaddr
		for {
			if n, sa, err = unix.Recvfrom(int(fd), b, 0); err != unix.EINTR {
				break
			}
		}
		switch sa := sa.(type) {
		case *unix.SockaddrInet4:
			from = netip.AddrFrom4(sa.Addr)
		case *unix.SockaddrInet6:
			from = netip.AddrFrom16(sa.Addr)
		}
		return err != unix.EAGAIN
	})
	if e != nil {
		return 0, from, e
	}
	return n, from, waiting(err)
}

// sending says what an error means that came at once: no packet has left.
func sending(err error) error {
	for _, no := range []error{unix.EHOSTUNREACH, unix.ENETUNREACH, unix.EACCES, unix.EINVAL, unix.ENODEV} {
		if errors.Is(err, no) { // the kinds of route that lead nowhere, in their order, and a link that went
			return fmt.Errorf("%w: %w", ErrNoRoute, err)
		}
	}
	if errors.Is(err, unix.EPERM) {
		return fmt.Errorf("%w: a firewall of this machine forbids it: %w", ErrNoRights, err)
	}
	if errors.Is(err, unix.EADDRNOTAVAIL) {
		return fmt.Errorf("%w: %w", ErrNoSource, err)
	}
	return err
}

// waiting says what an error means that came in the place of an answer.
func waiting(err error) error {
	for _, no := range []error{unix.EHOSTUNREACH, unix.ENETUNREACH, unix.EACCES, unix.EPROTO, unix.ENOPROTOOPT, unix.EHOSTDOWN, unix.ENONET} {
		if errors.Is(err, no) {
			return fmt.Errorf("%w: an ICMP message says so: %w", errUnreachable, err)
		}
	}
	return err
}

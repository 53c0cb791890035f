package api

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// CanMark tells that SocketOptions.DSCP can be set on this system.
const CanMark = true

// control sets the options between the making of a socket and its connect.
func (o SocketOptions) control(unmarked func(error)) (func(network, addr string, c syscall.RawConn) error, error) {
	return func(network, _ string, c syscall.RawConn) error {
		var err error
		if cerr := c.Control(func(fd uintptr) { err = o.set(int(fd), network, unmarked) }); cerr != nil {
			return cerr
		}
		return err
	}, nil
}

func (o SocketOptions) set(fd int, network string, unmarked func(error)) error {
	if o.DSCP > 0 {
		if err := setDSCP(fd, network, o.DSCP); err != nil && unmarked != nil {
			unmarked(fmt.Errorf("dscp %d: %w", o.DSCP, err))
		}
	}
	if o.Interface != "" {
		err := unix.SetsockoptString(fd, unix.SOL_SOCKET, unix.SO_BINDTODEVICE, o.Interface)
		if errors.Is(err, unix.ENODEV) {
			return fmt.Errorf("interface %s: %w", o.Interface, err) // a tunnel or modem comes and goes
		}
		if err != nil {
			return fmt.Errorf("%w: interface %s: %w", ErrSocket, o.Interface, err)
		}
	}
	if o.UserTimeout > 0 {
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(o.UserTimeout.Milliseconds())); err != nil {
			return fmt.Errorf("%w: tcp user timeout: %w", ErrSocket, err)
		}
	}
	if o.Congestion != "" {
		if err := unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, o.Congestion); err != nil {
			return fmt.Errorf("%w: congestion control %s: %w; this kernel has: %s", ErrSocket, o.Congestion, err, algorithms())
		}
	}
	return nil
}

// setDSCP puts the code point above the two bits of ECN (RFC 2474 §3), which
// the kernel keeps for itself on TCP sockets.
func setDSCP(fd int, network string, dscp int) error {
	if network != "tcp6" {
		return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_TOS, dscp<<2)
	}
	// An IPv6 socket may come to speak IPv4, to a mapped address.
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_TOS, dscp<<2)
	return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_TCLASS, dscp<<2)
}

func algorithms() string {
	b, err := os.ReadFile("/proc/sys/net/ipv4/tcp_available_congestion_control")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(b))
}

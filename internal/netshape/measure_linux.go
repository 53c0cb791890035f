package netshape

import (
	"errors"
	"fmt"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// acked is how many bytes the other side of c has confirmed.
func acked(c net.Conn) (n uint64, err error) {
	s, ok := c.(syscall.Conn)
	if !ok {
		return 0, fmt.Errorf("%T has no socket", c)
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return 0, err
	}
	var info *unix.TCPInfo
	e := raw.Control(func(fd uintptr) { info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) })
	if e != nil || err != nil {
		return 0, fmt.Errorf("TCP_INFO: %w", errors.Join(e, err))
	}
	return max(info.Bytes_acked, 1) - 1, nil // the SYN counts for one
}

// marked makes connections with a DSCP, from the first packet on. Where the kernel
// does not let us they go without.
func marked(dscp int) Dial {
	d := net.Dialer{Control: func(network, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) {
			setDSCP(int(fd), network == "tcp6", dscp)
		})
	}}
	return d.DialContext
}

// setDSCP is for what a socket sends from now on. One for IPv6 may speak IPv4, too.
func setDSCP(fd int, v6 bool, dscp int) {
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_TOS, dscp<<2)
	if v6 {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_TCLASS, dscp<<2)
	}
}

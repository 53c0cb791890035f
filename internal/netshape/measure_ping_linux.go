package netshape

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// PingProbe sends an ICMP echo request to addr, marked EF. It needs a kernel that
// lets this group ping (net.ipv4.ping_group_range), or CAP_NET_RAW; the error says
// so. It costs some 130 bytes.
func PingProbe(addr netip.Addr) Probe {
	return func(ctx context.Context) (time.Duration, error) {
		c, raw, err := pingSocket(addr.Unmap())
		if err != nil {
			return 0, fmt.Errorf("ping %s: %w", addr, err)
		}
		defer func() { _ = c.Close() }()
		defer context.AfterFunc(ctx, func() { _ = c.SetReadDeadline(time.Unix(1, 0)) })()
		nonce := binary.BigEndian.AppendUint64(nil, rand.Uint64())
		start := time.Now()
		if _, err := c.Write(echoRequest(addr.Unmap().Is4(), uint16(rand.Uint32()), nonce)); err != nil {
			return 0, err
		}
		b := make([]byte, 1500)
		for {
			n, err := c.Read(b)
			if err != nil {
				return 0, errors.Join(context.Cause(ctx), err)
			}
			if echoReply(b[:n], addr.Unmap().Is4(), raw, nonce) {
				return time.Since(start), nil
			}
		}
	}
}

// pingSocket is connected to addr. raw sockets need a capability, and with IPv4
// read the IP header, too.
func pingSocket(addr netip.Addr) (c net.Conn, raw bool, err error) {
	family, protocol := unix.AF_INET6, unix.IPPROTO_ICMPV6
	var to unix.Sockaddr = &unix.SockaddrInet6{Addr: addr.As16()}
	if addr.Is4() {
		family, protocol, to = unix.AF_INET, unix.IPPROTO_ICMP, &unix.SockaddrInet4{Addr: addr.As4()}
	}
	const flags = unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|flags, protocol)
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
		raw = true
		fd, err = unix.Socket(family, unix.SOCK_RAW|flags, protocol)
	}
	if err != nil {
		return nil, raw, fmt.Errorf("this process may not ping: it lacks CAP_NET_RAW and its group is not in net.ipv4.ping_group_range: %w", err)
	}
	f := os.NewFile(uintptr(fd), "ping")
	defer func() { _ = f.Close() }() // c has a copy
	setDSCP(fd, family == unix.AF_INET6, urgentDSCP)
	if err := unix.Connect(fd, to); err != nil {
		return nil, raw, err
	}
	c, err = net.FileConn(f)
	return c, raw, err
}

// echoRequest is one with a checksum, which for IPv6 the kernel makes. A ping socket
// has an id of its own; of a raw one it has to be new each time, or a router takes it
// for a flow that it knows and may have sent another way.
func echoRequest(v4 bool, id uint16, nonce []byte) []byte {
	b := append([]byte{128, 0, 0, 0, byte(id >> 8), byte(id), 0, 1}, nonce...)
	if !v4 {
		return b
	}
	b[0] = 8
	sum := uint32(0)
	for i := 0; i < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	sum = sum>>16 + sum&0xffff
	binary.BigEndian.PutUint16(b[2:], ^uint16(sum>>16+sum))
	return b
}

// echoReply reports that b, as a ping socket or a raw one read it, answers the
// request with that nonce.
func echoReply(b []byte, v4, raw bool, nonce []byte) bool {
	kind := byte(129)
	if v4 {
		kind = 0
	}
	if v4 && raw {
		if len(b) < 20 {
			return false
		}
		b = b[min(len(b), 4*int(b[0]&15)):]
	}
	return len(b) >= 8 && b[0] == kind && bytes.Equal(b[8:], nonce)
}

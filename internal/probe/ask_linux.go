package probe

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// ask puts the question. It does not look at the way that it takes.
func ask(ctx context.Context, b Binding, t Target) (exchange, error) {
	switch t.Kind {
	case ICMP:
		return ping(ctx, b, t.Addr.Addr())
	case DNS:
		return askDNS(ctx, b, t)
	case TCP:
		c, x, err := handshake(ctx, b, t.Addr)
		if err == nil {
			x.bytes = c.cost()
			_ = c.Close()
		}
		return x, err
	case HTTP:
		return get(ctx, b, t)
	}
	return exchange{}, fmt.Errorf("%q is no kind of target", t.Kind)
}

// Sizes of headers.
const (
	header4, header6     = 20, 40 // IP
	headerTCP, headerUDP = 20, 8
)

func headerIP(a netip.Addr) int {
	if a.Is4() {
		return header4
	}
	return header6
}

func ping(ctx context.Context, b Binding, dst netip.Addr) (x exchange, err error) {
	fd, raw, err := b.pingSocket(dst)
	if err != nil {
		return x, err
	}
	c, err := connect(ctx, fd, netip.AddrPortFrom(dst, 0))
	if err != nil {
		return x, err
	}
	defer func() { _ = c.Close() }()
	c.whole = raw && dst.Is4()
	nonce := binary.BigEndian.AppendUint64(nil, rand.Uint64())
	message := echoRequest(dst.Is4(), nonce)
	return c.exchange(dst, message, func(answer []byte) (bool, error) {
		return echoReply(answer, dst.Is4(), nonce), nil
	}, headerIP(dst))
}

// Ping asks dst by whichever way this machine takes, with EF, and returns how long the
// answer took. An error wraps [ErrNoRights] where this process may not ping.
func Ping(ctx context.Context, dst netip.Addr) (time.Duration, error) {
	anyway := Binding{Source4: netip.IPv4Unspecified(), Source6: netip.IPv6Unspecified()}
	x, err := ping(ctx, anyway, dst.Unmap().WithZone(""))
	return x.rtt, err
}

// pingSocket is one that the group may have, or a raw one, which needs a
// capability, and with IPv4 reads the IP header, too.
func (b Binding) pingSocket(dst netip.Addr) (fd int, raw bool, err error) {
	protocol := unix.IPPROTO_ICMPV6
	if dst.Is4() {
		protocol = unix.IPPROTO_ICMP
	}
	fd, err = b.socket(dst, unix.SOCK_DGRAM, protocol)
	if !forbidden(err) {
		return fd, false, err
	}
	fd, err = b.socket(dst, unix.SOCK_RAW, protocol)
	if forbidden(err) {
		err = fmt.Errorf("%w: to ping needs CAP_NET_RAW, or the group in net.ipv4.ping_group_range: %w", ErrNoRights, err)
	}
	return fd, true, err
}

// forbidden is of making a socket; what is said of marking it is said.
func forbidden(err error) bool {
	return (errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM)) && !errors.Is(err, ErrNoRights) && !errors.Is(err, ErrNoSource)
}

func askDNS(ctx context.Context, b Binding, t Target) (x exchange, err error) {
	id := uint16(rand.Uint32())
	message, err := query(id, t.Name, t.Want)
	if err != nil {
		return x, err
	}
	fd, err := b.socket(t.Addr.Addr(), unix.SOCK_DGRAM, unix.IPPROTO_UDP)
	if err != nil {
		return x, err
	}
	c, err := connect(ctx, fd, t.Addr)
	if err != nil {
		return x, err
	}
	defer func() { _ = c.Close() }()
	return c.exchange(t.Addr.Addr(), message, func(answer []byte) (bool, error) {
		return checkDNS(answer, id, t.Name, t.Want)
	}, headerIP(t.Addr.Addr())+headerUDP)
}

// exchange sends a message and waits for what check calls ours. What comes from
// elsewhere or is not ours is passed over. header is what each message is sent with.
func (c *conn) exchange(dst netip.Addr, message []byte, check func([]byte) (ours bool, err error), header int) (x exchange, err error) {
	start := time.Now()
	if err = c.send(message); err != nil {
		return x, err
	}
	x.bytes = header + len(message)
	buf := make([]byte, 4096)
	for {
		n, from, err := c.receive(buf)
		if err != nil {
			return x, err
		}
		took := time.Since(start)
		if from != dst {
			continue
		}
		answer := buf[:n]
		if c.whole {
			answer = withoutHeader(answer)
		}
		if ours, err := check(answer); ours {
			x.rtt = took
			x.bytes += header + len(answer)
			return x, err
		}
	}
}

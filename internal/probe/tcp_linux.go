package probe

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// stream is a connection, and what it takes to tell its cost.
type stream struct {
	*conn
	header int    // of IP and TCP, without options
	syns   uint32 // as many were sent
}

// handshake opens a connection, which closes with a reset. x is what it cost when
// there is none.
func handshake(ctx context.Context, b Binding, to netip.AddrPort) (s *stream, x exchange, err error) {
	fd, err := b.socket(to.Addr(), unix.SOCK_STREAM, unix.IPPROTO_TCP)
	if err != nil {
		return nil, x, err
	}
	if err = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}); err != nil {
		_ = unix.Close(fd)
		return nil, x, fmt.Errorf("SO_LINGER: %w", err)
	}
	start := time.Now()
	c, err := connect(ctx, fd, to)
	if err != nil {
		return nil, x, err
	}
	s = &stream{conn: c, header: headerIP(to.Addr()) + headerTCP}
	answered, err := s.established()
	if answered {
		x.rtt = time.Since(start)
	}
	if err != nil {
		x.bytes = s.costOfNone()
		_ = s.Close()
		return nil, x, waiting(err)
	}
	if i, e := s.info(); e == nil {
		s.syns = 1 + i.Total_retrans
	}
	return s, x, nil
}

// established waits for the end of a handshake. It was answered, too, when it was
// refused.
func (s *stream) established() (answered bool, err error) {
	e := s.raw.Write(func(fd uintptr) bool {
		code, failed := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
		if failed == nil && code != 0 {
			failed = unix.Errno(code)
		}
		if err = failed; err != nil {
			return true
		}
		_, missing := unix.Getpeername(int(fd))
		return missing == nil
	})
	if e != nil {
		return false, e
	}
	return err == nil || err == unix.ECONNREFUSED, err
}

func (s *stream) info() (i *unix.TCPInfo, err error) {
	e := s.raw.Control(func(fd uintptr) { i, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) })
	if e != nil {
		err = e
	}
	return i, err
}

// What options take in the header of TCP, as Linux fills it.
const (
	hasTimestamps, hasSACK, hasScale = 1, 2, 4 // of TCPInfo.Options

	optionsSYN = 20 // MSS, SACK permitted, timestamps, window scale

	stateClosed, stateCloseWait = 7, 8 // of TCPInfo.State
)

// cost is of an open connection, with the reset that will end it, by the kernel's
// own count of segments.
func (s *stream) cost() int {
	i, err := s.info()
	if err != nil {
		return 0
	}
	each, accepting := s.header, 4 // MSS
	if i.Options&hasTimestamps != 0 {
		each, accepting = each+12, accepting+12
	} else if i.Options&hasSACK != 0 {
		accepting += 4
	}
	if i.Options&hasScale != 0 {
		accepting += 4
	}
	n := int(i.Segs_out+i.Segs_in)*each + int(i.Bytes_sent+i.Bytes_received)
	n += int(s.syns)*(s.header+optionsSYN-each) + s.header + accepting - each
	switch i.State {
	case stateCloseWait: // a FIN is counted as a byte
		n += each - 1
	case stateClosed:
	default:
		n += each
	}
	return n
}

// costOfNone is of a connection that did not come to be: SYNs, and perhaps a reset.
func (s *stream) costOfNone() int {
	i, err := s.info()
	if err != nil {
		return 0
	}
	return int(i.Segs_out)*(s.header+optionsSYN) + int(i.Segs_in)*s.header
}

// get asks for a page over one connection.
func get(ctx context.Context, b Binding, t Target) (exchange, error) {
	start := time.Now()
	s, x, err := handshake(ctx, b, t.Addr)
	if err != nil {
		return x, err
	}
	defer func() { _ = s.Close() }()
	x.rtt = 0
	if _, err = s.Write([]byte(t.request())); err == nil {
		err = t.checkHTTP(s)
	}
	if faultOf(err) == None || faultOf(err) == WrongAnswer {
		x.rtt = time.Since(start)
	}
	x.bytes = s.cost()
	return x, waiting(err)
}

package main

import (
	"context"
	"net"
	"os"
	"sync"
	"sync/atomic"

	"trafficup/internal/api"
	"trafficup/internal/dscp"
)

// The classes of a run's own packets.
const (
	bulk        = "bulk"
	interactive = "interactive"
)

// few is how much somebody sends by hand, in bytes as they lie on disk.
const few = 16 << 10

// byHand reports that somebody at a terminal sends a few records: named files of
// at most few bytes together, or what is typed. size returns -1 for what is no file.
func byHand(terminal, typing bool, args []string, size func(name string) int64) bool {
	var all int64
	for _, arg := range args {
		n := int64(0)
		if arg != "-" {
			n = size(arg)
		}
		if n < 0 || arg == "-" && !typing {
			return false
		}
		all += n
	}
	return (terminal || typing) && all <= few
}

// fileSize is -1 for what is no regular file.
func fileSize(name string) int64 {
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() {
		return -1
	}
	return info.Size()
}

// marking is how a run marks the packets of its sockets, from the first one on.
type marking struct {
	point int // the DSCP of the run's class, which that of a path goes over; 0: none
	warn  func(string)

	once    sync.Once
	refused atomic.Bool // the system does not let a socket have its mark
}

// marking is that of a run with traffic of the class, unless upload.class says
// another. The code point is the one that netshape's class of that name has, so that
// both say the same of one packet.
func (c Config) marking(class string, warn func(string)) *marking {
	if c.Upload.Class != "auto" {
		class = c.Upload.Class
	}
	m := &marking{warn: warn}
	point, marked := dscp.Usual(class)
	if !marked || !api.CanMark {
		return m
	}
	m.point = point
	for _, k := range c.Netshape.Classes {
		if k.Name == class && k.DSCP != "" {
			m.point, _ = dscp.Parse(k.DSCP) // checked before
		}
	}
	return m
}

// of is the DSCP of a path's packets; 0: none.
func (m *marking) of(p pathSetup) (int, error) {
	if p.DSCP == "" {
		return m.point, nil
	}
	return dscp.Parse(p.DSCP)
}

// unmarked hears that packets of who go without their mark. It warns once in a run:
// what the system refuses to one it refuses to all.
func (m *marking) unmarked(who string) func(error) {
	return func(err error) {
		m.refused.Store(true)
		m.once.Do(func() {
			m.warn(who + ": its packets go without their mark: " + err.Error())
		})
	}
}

// marked is what the packets of a path bore.
func (r *route) marked(p pathSetup) int {
	if r.mark.refused.Load() {
		return 0
	}
	point, _ := r.mark.of(p) // checked before
	return point
}

// dialer is for who is on no path.
func (m *marking) dialer(sys *system, who string) func(ctx context.Context, network, addr string) (net.Conn, error) {
	dial, _ := api.NewDialer(api.Config{Dial: sys.dial, Socket: api.SocketOptions{DSCP: m.point}, Unmarked: m.unmarked(who)}) // a code point is never wrong
	return dial
}

package netshape

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Probe has something answer to a small packet, and returns how long that took.
// It is safe for concurrent use.
type Probe func(ctx context.Context) (time.Duration, error)

// What uploads of a measurement and its probes are marked with, so that a queue
// of ours lets the probes pass: what they wait for is then not in it.
const (
	bulkDSCP   = 1  // LE
	urgentDSCP = 46 // EF
)

// ConnectProbe makes a connection to addr, an IP address and port, and closes it
// at once; being refused is an answer, too. It costs some 400 bytes. It says
// nothing on a link whose modem answers TCP for others, as some of satellites do. dial
// nil: a net.Dialer's, marked EF.
func ConnectProbe(addr string, dial Dial) Probe {
	if dial == nil {
		dial = marked(urgentDSCP)
	}
	return func(ctx context.Context) (time.Duration, error) {
		start := time.Now()
		c, err := dial(ctx, "tcp", addr)
		took := time.Since(start)
		if err == nil {
			_ = c.Close()
		} else if !errors.Is(err, syscall.ECONNREFUSED) {
			return 0, err
		}
		return took, nil
	}
}

// NewProbe is [ConnectProbe] for a target host:port, and [PingProbe] for icmp:host.
// Its name is looked up once; it has to be reached by the interface, "" is any.
func NewProbe(ctx context.Context, target, iface string) (Probe, error) {
	probe, _, err := probeOf(ctx, target, iface)
	return probe, err
}

// probeOf is NewProbe, with the address of the target.
func probeOf(ctx context.Context, target, iface string) (Probe, netip.Addr, error) {
	addr := target
	host, ping := strings.CutPrefix(target, "icmp:")
	if ping {
		addr = net.JoinHostPort(strings.Trim(host, "[]"), "7") // any port will do to choose the way
	}
	numeric, err := address(ctx, addr, iface)
	if err != nil {
		return nil, netip.Addr{}, fmt.Errorf("target %s: %w", target, err)
	}
	host, _, _ = net.SplitHostPort(numeric) // address has split it
	to, err := netip.ParseAddr(host)
	if err != nil {
		return nil, to, fmt.Errorf("target %s: %w", target, err)
	}
	if ping {
		return PingProbe(to), to, nil
	}
	return ConnectProbe(numeric, nil), to, nil
}

// address is addr with its name looked up. Of several addresses it is the first
// that is reached by the interface.
func address(ctx context.Context, addr, iface string) (string, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", fmt.Errorf("want host:port: %w", err)
	}
	list, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		return "", err
	}
	err = nil
	for _, ip := range list {
		numeric := net.JoinHostPort(ip, port)
		e := leavesBy(numeric, iface)
		if e == nil {
			return numeric, nil
		}
		err = errors.Join(err, e)
	}
	return "", err
}

// moment is a delay and when, since the load began, it was asked for.
type moment struct {
	at, delay time.Duration // delay 0: there was no answer
}

// probes are on their way at the same time: under load one may take seconds.
type probes struct {
	probe Probe
	all   sync.WaitGroup
	mu    sync.Mutex
	got   []moment // guarded by mu, as is err
	err   error    // the latest
}

func (p *probes) send(ctx context.Context, at time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := len(p.got)
	p.got = append(p.got, moment{at: at})
	p.all.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, probeTimeout)
		defer cancel()
		d, err := p.probe(ctx)
		p.mu.Lock()
		defer p.mu.Unlock()
		if err != nil {
			p.err = err
		} else {
			p.got[i].delay = d
		}
	})
}

// wait returns all in their order, when there are no more answers to come.
func (p *probes) wait() []moment {
	p.all.Wait()
	return p.got
}

// leavesBy returns an error when the way to addr is not by the interface name; ""
// is all of them.
func leavesBy(addr, name string) error {
	if name == "" {
		return nil
	}
	c, err := net.Dial("udp", addr) // sends nothing, but chooses the way
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	local, err := netip.ParseAddrPort(c.LocalAddr().String())
	if err == nil && !onInterface(local.Addr(), []string{name}) {
		err = fmt.Errorf("the way to %s is by the address %s, which %s does not have: another uplink would be measured", addr, local.Addr(), name)
	}
	return err
}

// nearby reports that addr is in a network of the interface's own.
func nearby(addr netip.Addr, iface string) bool {
	i, err := net.InterfaceByName(iface)
	if err != nil {
		return false
	}
	list, err := i.Addrs()
	if err != nil {
		return false
	}
	return slices.ContainsFunc(list, func(a net.Addr) bool {
		p, err := netip.ParsePrefix(a.String())
		return err == nil && !p.IsSingleIP() && p.Contains(addr.Unmap().WithZone(""))
	})
}

// noise is data that no modem can compress.
func noise() []byte {
	b := make([]byte, chunk)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b) // never fails
	return b
}

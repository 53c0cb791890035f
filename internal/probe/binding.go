package probe

import (
	"errors"
	"fmt"
	"net/netip"
)

// EF is the mark of what is not to wait behind bulk traffic, see RFC 3246.
const EF = 46

// Binding is an uplink as a probe sees it.
type Binding struct {
	Interface        string
	Index            int        // what Interface had when the rest was learned; 0: any
	Mark, Mask       uint32     // of packets and of the rule that leads them to the uplink's table; mask 0: all bits
	Source4, Source6 netip.Addr // the uplink's own addresses; not valid: it has none
	DSCP             int        // of every packet; 0: EF, below 0: none
	// Device has the socket bound to the interface, where no rule leads a mark to a
	// table: of the routes of main only those by it count then. A strict rp_filter of
	// the interface drops the answers, unless the interface has the best of them all.
	Device bool
}

// Route is the way a probe takes.
type Route struct {
	Index   int        // of the interface
	Gateway netip.Addr // not valid: the target is a neighbour, or at the other end of a point-to-point link
}

// Why there can be no probe.
var (
	ErrNoRoute  = errors.New("no route")  // the target is not beyond this uplink, or the uplink's table is not as it has to be
	ErrNoSource = errors.New("no source") // the address to probe from is missing, or gone
	ErrNoRights = errors.New("no rights") // the process lacks a capability, or a firewall of this machine forbids it
)

// source is the address to ask dst from.
func (b Binding) source(dst netip.Addr) (netip.Addr, error) {
	src, family := b.Source6, "IPv6"
	if dst.Is4() {
		src, family = b.Source4, "IPv4"
	}
	if !src.IsValid() {
		return src, fmt.Errorf("%w: %s has no %s address to ask %s from", ErrNoSource, b.Interface, family, dst)
	}
	return src, nil
}

// checkMark refuses a mark that no rule with the mask leads anywhere.
func (b Binding) checkMark() error {
	if b.Mask != 0 && b.Mark&^b.Mask != 0 {
		return fmt.Errorf("%w: mark %#x has bits outside of the mask %#x: no rule matches it", ErrNoRoute, b.Mark, b.Mask)
	}
	return nil
}

// tos is the octet with the code point in its place.
func (b Binding) tos() int {
	switch {
	case b.DSCP < 0:
		return 0
	case b.DSCP == 0:
		return EF << 2
	}
	return b.DSCP << 2
}

// way is the command that shows what the kernel says of a probe's way.
func (b Binding) way(dst, src netip.Addr) string {
	text := fmt.Sprintf("ip route get %s from %s", dst, src)
	if b.Mark != 0 {
		text += fmt.Sprintf(" mark %#x", b.Mark)
	}
	if b.Device {
		text += " oif " + b.Interface
	}
	return text
}

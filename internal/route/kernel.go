package route

import (
	"net/netip"
	"slices"
)

// Kernel is what the kernel has, as far as routing by us goes. Its parts are read
// one after the other, and what changes meanwhile is told by [Events].
type Kernel struct {
	Links  []Link
	Addrs  []Addr
	Routes []Route // of all tables but local; of a route with several next hops one for each
	Rules  []Rule  // by priority
	IPv6   bool    // the kernel has it at all
	// NoRules: the kernel has none, nor more tables than main's.
	NoRules bool
}

// Link is a network interface.
type Link struct {
	Name         string
	Index        int
	Up           bool // as the administrator set it
	Carrier      bool // and it can send
	PointToPoint bool // nobody is looked for on it
	Master       string
	VRF          bool   // it is one, not only a part of one
	Sent         uint64 // bytes, since it is there
}

// Addr is an address of an interface.
type Addr struct {
	Index      int // of the interface
	Prefix     netip.Prefix
	Global     bool
	Tentative  bool // not usable yet, or found to be somebody else's
	Deprecated bool // not for new connections
	Secondary  bool // of IPv4: not the first in its subnet; of IPv6: temporary
}

// Numbers of the kernel's.
const (
	MainTable   = 254
	unicast     = 1
	unreachable = 7
)

// Route is one of a table. Two that agree in table, destination and metric
// cannot both be there, unless somebody insists.
type Route struct {
	Table     int
	Dst       netip.Prefix
	Metric    uint32
	Type      uint8 // as the kernel numbers them: 1 is unicast, 7 unreachable
	Gateway   netip.Addr
	Interface string
	Index     int // of the interface
	Source    netip.Addr
	OnLink    bool
	Protocol  uint8
	Metrics   Metrics
	Odd       bool // there is more to it than is told here, such as several next hops
}

// Metrics are what a route says of its packets; 0: nothing.
type Metrics struct{ MTU, AdvMSS, HopLimit, InitCwnd uint32 }

type routeKey struct {
	table  int
	dst    netip.Prefix
	metric uint32
}

func (r Route) key() routeKey   { return routeKey{r.Table, r.Dst, r.Metric} }
func (r Route) v6() bool        { return r.Dst.Addr().Is6() }
func (r Route) isDefault() bool { return r.Dst.Bits() == 0 }

// Rule is one of the rules that choose a table.
type Rule struct {
	V6       bool
	Priority int
	Mark     uint32
	Mask     uint32 // 0: whatever the mark
	Not      bool   // all but those of that mark and address
	From     netip.Prefix
	Table    int
	Suppress bool // pass over a default
	Protocol uint8
	Odd      bool // there is more to it than is told here
}

// everything tells whether a rule asks its table for every packet.
func (r Rule) everything() bool {
	return r.Mask == 0 && !r.Not && !r.From.IsValid() && !r.Suppress && !r.Odd
}

// takes tells whether a rule asks its table for packets with a mark and an address.
func (r Rule) takes(mark uint32, from netip.Addr) bool {
	fits := (mark^r.Mark)&r.Mask == 0 && (!r.From.IsValid() || r.From.Contains(from))
	return fits != r.Not && !r.Suppress && !r.Odd
}

func (k Kernel) link(name string) (Link, bool) {
	i := slices.IndexFunc(k.Links, func(l Link) bool { return l.Name == name })
	if i < 0 {
		return Link{}, false
	}
	return k.Links[i], true
}

// vrf returns the name of the VRF that an interface is a part of, or "".
func (k Kernel) vrf(l Link) string {
	for range 4 { // a bridge or bond may stand between
		m, ok := k.link(l.Master)
		if !ok {
			break
		}
		if m.VRF {
			return m.Name
		}
		l = m
	}
	return ""
}

func defaultOf(v6 bool) netip.Prefix {
	if v6 {
		return netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	return netip.PrefixFrom(netip.IPv4Unspecified(), 0)
}

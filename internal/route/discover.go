package route

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
)

// What Discovery.Err4 and Err6 wrap.
var (
	ErrNoInterface = errors.New("no such interface")
	ErrVRF         = errors.New("interface is part of a VRF")
	ErrDown        = errors.New("interface is down")
	ErrNoCarrier   = errors.New("no carrier")
	ErrNoAddress   = errors.New("no address")
	ErrNoGateway   = errors.New("no gateway")
)

// Discovery is what the kernel knows of the way out by an interface.
type Discovery struct {
	Interface    string
	Index        int
	Up, Carrier  bool
	PointToPoint bool

	Source4, Source6   netip.Addr
	Gateway4, Gateway6 netip.Addr
	OnLink             bool // a default was set so
	Connected          []netip.Prefix
	Metrics4, Metrics6 Metrics // of the defaults

	Err4, Err6 error    // why there is no way out; nil: there is one
	Notes      []string // what is odd and does no harm
}

// Discover returns what is known of an interface. The gateway is that of the
// default in main, which DHCP or a router's advertisement put there; where main
// holds several by this interface it is the one with the lowest metric, and the
// first of equals. Ours is not looked at.
func (l Layout) Discover(k Kernel, iface string) Discovery {
	return l.discover(k, Uplink{Interface: iface})
}

// discover is [Layout.Discover] with what is configured of the uplink.
func (l Layout) discover(k Kernel, u Uplink) Discovery {
	iface := u.Interface
	d := Discovery{Interface: iface}
	link, ok := k.link(iface)
	if !ok {
		d.Err4 = fmt.Errorf("%s: %w", iface, ErrNoInterface)
		d.Err6 = d.Err4
		return d
	}
	d.Index, d.Up, d.Carrier, d.PointToPoint = link.Index, link.Up, link.Carrier, link.PointToPoint
	d.Connected = l.connected(k, link)
	for _, v6 := range []bool{false, true} {
		var w way
		if link.Up { // an address stays on a link that is down, and cannot be used
			_, gateway := u.way(v6)
			w = l.wayOut(k, link, gateway, v6)
		}
		err := w.err
		switch vrf := k.vrf(link); {
		case vrf != "":
			err = fmt.Errorf("%w %s", ErrVRF, vrf)
		case !link.Up:
			err = ErrDown
		case !link.Carrier:
			err = ErrNoCarrier
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", iface, err)
		}
		if v6 {
			d.Source6, d.Gateway6, d.Metrics6, d.Err6 = w.source, w.gateway, w.metrics, err
		} else {
			d.Source4, d.Gateway4, d.Metrics4, d.Err4 = w.source, w.gateway, w.metrics, err
		}
		d.OnLink = d.OnLink || w.onLink
		d.Notes = append(d.Notes, w.notes...)
	}
	return d
}

// With returns the uplink with what was discovered in place of what was. A
// gateway that was configured stays: start from the configured uplink each time.
func (u Uplink) With(d Discovery) Uplink {
	u.Index, u.PointToPoint, u.Connected = d.Index, d.PointToPoint, d.Connected
	u.Source4, u.Source6 = d.Source4, d.Source6
	u.Metrics4, u.Metrics6 = d.Metrics4, d.Metrics6
	if !u.Gateway4.IsValid() {
		u.Gateway4 = d.Gateway4
	}
	if !u.Gateway6.IsValid() {
		u.Gateway6 = d.Gateway6
	}
	u.OnLink = u.OnLink || d.OnLink
	return u
}

// Fill returns the layout with every uplink as the kernel has it now, and what
// was found of each. Start from the configured layout each time.
func (l Layout) Fill(k Kernel) (Layout, []Discovery) {
	l.Uplinks = slices.Clone(l.Uplinks)
	found := make([]Discovery, len(l.Uplinks))
	for i, u := range l.Uplinks {
		found[i] = l.discover(k, u)
		l.Uplinks[i] = u.With(found[i])
	}
	return l, found
}

// connected returns what main reaches by an interface without a gateway.
func (l Layout) connected(k Kernel, link Link) (all []netip.Prefix) {
	for _, r := range k.Routes {
		if r.Table == MainTable && r.Index == link.Index && r.Type == unicast && r.Protocol != l.Protocol &&
			!r.isDefault() && !r.Gateway.IsValid() && !r.Odd &&
			!r.Dst.Addr().IsLinkLocalUnicast() && !r.Dst.Addr().IsMulticast() && !slices.Contains(all, r.Dst) {
			all = append(all, r.Dst)
		}
	}
	return all
}

// way is how a family leaves.
type way struct {
	source, gateway netip.Addr
	onLink          bool
	metrics         Metrics
	err             error
	notes           []string
}

// wayOut finds how a family leaves by a link; by a gateway, if one is configured.
func (l Layout) wayOut(k Kernel, link Link, gateway netip.Addr, v6 bool) (w way) {
	var defaults []Route
	for _, r := range k.Routes {
		if r.Table == MainTable && r.Index == link.Index && r.isDefault() && r.v6() == v6 &&
			r.Type == unicast && r.Protocol != l.Protocol {
			defaults = append(defaults, r)
		}
	}
	slices.SortStableFunc(defaults, func(a, b Route) int { return cmp.Compare(a.Metric, b.Metric) })
	if len(defaults) > 1 && !gateway.IsValid() {
		w.notes = append(w.notes, fmt.Sprintf("%s: main holds %d defaults; taken is: %v", link.Name, len(defaults), defaults[0]))
	}
	var first Route
	if len(defaults) > 0 {
		first = defaults[0]
	}
	if gateway.IsValid() && gateway != first.Gateway { // nothing else of that default is its
		first = Route{Gateway: gateway, Metrics: first.Metrics}
	}
	w.gateway, w.onLink, w.metrics = first.Gateway, first.OnLink, first.Metrics
	w.source = source(k, link, v6, first)
	switch {
	case !w.source.IsValid():
		w.err = ErrNoAddress
	case !w.gateway.IsValid() && !link.PointToPoint && len(defaults) > 0:
		// Every address would be looked for on the link, and a neighbour may say it is there.
		w.err = fmt.Errorf("%w in its default, though the link is not point to point", ErrNoGateway)
	case !w.gateway.IsValid() && !link.PointToPoint:
		w.err = fmt.Errorf("%w: main holds no default by it", ErrNoGateway)
	}
	return w
}

// source returns the address to send from: the one that the default names, else
// one in the gateway's subnet, else the first, rather one that lasts.
func source(k Kernel, link Link, v6 bool, def Route) netip.Addr {
	var all []Addr
	for _, a := range k.Addrs {
		if a.Index == link.Index && a.Prefix.Addr().Is6() == v6 && a.Global && !a.Tentative {
			all = append(all, a)
		}
	}
	if i := slices.IndexFunc(all, func(a Addr) bool { return a.Prefix.Addr() == def.Source }); i >= 0 {
		return def.Source
	}
	rank := func(a Addr) (n int) {
		for i, bad := range []bool{
			a.Secondary,
			a.Prefix.Addr().Is6() && a.Prefix.Addr().IsPrivate(),
			a.Deprecated,
			!(def.Gateway.IsValid() && a.Prefix.Contains(def.Gateway)),
		} {
			if bad {
				n += 1 << i
			}
		}
		return n
	}
	slices.SortStableFunc(all, func(a, b Addr) int { return cmp.Compare(rank(a), rank(b)) })
	if len(all) == 0 {
		return netip.Addr{}
	}
	return all[0].Prefix.Addr()
}

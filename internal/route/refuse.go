package route

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// ErrRefused is wrapped by what Do and Plan.Err return of a plan with refusals.
var ErrRefused = errors.New("refused, nothing was changed")

// Kind says what a refusal is about.
type Kind string

// The kinds of refusal.
const (
	BadLayout       Kind = "layout"    // it contradicts itself
	ForeignRule     Kind = "rule"      // somebody else's rule among ours, or before them and deciding everything
	ForeignRoute    Kind = "table"     // somebody else's route in a table of ours
	ForeignProtocol Kind = "protocol"  // our protocol number where we put nothing
	ForeignMark     Kind = "mark"      // a mark of ours means something to somebody else's rule
	SameSubnet      Kind = "subnet"    // two uplinks are connected to the same addresses
	InVRF           Kind = "vrf"       // the uplink's routes are not in main
	OffLink         Kind = "gateway"   // the gateway is not reached on the link
	OtherLink       Kind = "interface" // the name is that of another interface now
	NoRules         Kind = "kernel"    // there can be none of ours
	LowMetric       Kind = "metric"    // somebody else's default comes before the one in main
)

// Refusal is why nothing is planned. What is the matter with one uplink can be
// got around by [Layout.Without].
type Refusal struct {
	Kind   Kind
	Uplink string // "": none, or more than one
	Text   string
	Fix    string // what to do
}

// Error returns the text, and what to do.
func (r Refusal) Error() string { return r.Text + "; " + r.Fix }

// refusals expects a numbered layout.
func (l Layout) refusals(k Kernel) (all []Refusal) {
	if all = l.Contradictions(); len(all) > 0 {
		return all
	}
	all = append(all, l.foreignProtocol(k)...)
	if l.Simple {
		all = append(all, l.lowMetric(k)...)
	} else {
		if k.NoRules {
			all = append(all, Refusal{NoRules, "", "this kernel has no policy rules (CONFIG_IP_MULTIPLE_TABLES)",
				"write failover.simple: true, which does without, and cannot probe the uplink that is not in use"})
		}
		all = append(all, l.foreignRules(k)...)
		all = append(all, l.foreignMarks(k)...)
		all = append(all, l.foreignRoutes(k)...)
	}
	all = append(all, l.sameSubnet()...)
	for _, u := range l.Uplinks {
		all = append(all, u.refusals(k, l.V6 && k.IPv6)...)
	}
	return all
}

// Contradictions are what no machine is needed to see. It expects a numbered layout.
func (l Layout) Contradictions() (all []Refusal) {
	bad := func(ok bool, format string, args ...any) {
		if !ok {
			all = append(all, Refusal{BadLayout, "", fmt.Sprintf(format, args...), "mend the configuration"})
		}
	}
	bad(l.Protocol > 4, "protocol %d is the kernel's or an administrator's", l.Protocol)
	bad(l.lowestRule() > 0 && l.activeRule() < 32766, "rules %d to %d are not between those of local and main", l.lowestRule(), l.activeRule())
	bad(l.ActiveTable > 0 && (l.ActiveTable < 253 || l.ActiveTable > 255), "table %d has a meaning of its own", l.ActiveTable)
	bad(len(l.Uplinks) <= MaxUplinks, "%d uplinks are more than %d", len(l.Uplinks), MaxUplinks)
	if _, ok := l.active(); !ok {
		bad(l.Active == "", "no uplink is called %q", l.Active)
	}
	names, ifaces := map[string]bool{}, map[string]bool{}
	marks, tables := map[uint32]bool{}, map[int]bool{l.ActiveTable: true}
	for _, u := range l.Uplinks {
		bad(u.Name != "" && !names[u.Name], "uplink name %q is empty or used twice", u.Name)
		bad(u.Interface != "" && !ifaces[u.Interface], "interface %q of %s is empty or used twice", u.Interface, u.Name)
		bad(u.Mark != 0 && u.Mark&^l.Mask == 0 && !marks[u.Mark], "mark %#x of %s is not within the mask %#x (failover.mask), or used twice", u.Mark, u.Name, l.Mask)
		bad(u.Table > 0 && (u.Table < 253 || u.Table > 255) && !tables[u.Table], "table %d of %s has a meaning of its own or is used twice", u.Table, u.Name)
		names[u.Name], ifaces[u.Interface], marks[u.Mark], tables[u.Table] = true, true, true, true
	}
	return all
}

func (l Layout) foreignProtocol(k Kernel) (all []Refusal) {
	no := func(what Step) {
		text := what.Route.String()
		if what.isRule() {
			text = what.Rule.String()
		}
		all = append(all, Refusal{ForeignProtocol, "",
			fmt.Sprintf("protocol %d is in use elsewhere: %s", l.Protocol, text),
			"where nobody sets it up again: " + what.Command()})
	}
	for _, r := range k.Routes {
		if r.Protocol == l.Protocol && !l.owns(r) {
			no(Step{Op: Delete, Route: r})
		}
	}
	for _, r := range k.Rules {
		if r.Protocol == l.Protocol && !l.ownsRule(r) {
			no(Step{Op: Delete, Rule: r})
		}
	}
	return all
}

func (l Layout) foreignRules(k Kernel) (all []Refusal) {
	for _, r := range k.Rules {
		switch {
		case r.Protocol == l.Protocol || r.V6 && !l.V6:
		case l.within(r):
			all = append(all, Refusal{ForeignRule, "",
				fmt.Sprintf("rule of somebody else's among ours (%d to %d): %v", l.lowestRule(), l.activeRule(), r),
				r.move(l.Lowest())})
		case r.Priority < l.lowestRule() && r.Table == MainTable && r.everything():
			all = append(all, Refusal{ForeignRule, "",
				fmt.Sprintf("rule before ours gives every packet to main: %v", r),
				"main is asked behind ours as well: " + Step{Op: Delete, Rule: r}.Command()})
		}
	}
	return all
}

// foreignMarks finds rules of others for packets that ours would take for probes,
// unless they are for ours. Marks that a firewall sets, and sockets, are not seen here.
func (l Layout) foreignMarks(k Kernel) (all []Refusal) {
	for _, r := range k.Rules {
		if r.Protocol == l.Protocol || r.Not || r.Mark&l.Mask == 0 || r.V6 && !l.V6 {
			continue
		}
		for _, u := range l.Uplinks {
			if (r.Mark^u.Mark)&r.Mask&l.Mask == 0 && !u.Unmarked && r.Table != u.Table {
				all = append(all, Refusal{ForeignMark, u.Name,
					fmt.Sprintf("mark %#x of %s (mask %#x) is that of packets meant by: %v", u.Mark, u.Name, l.Mask, r),
					l.OtherMask(k, 0)})
			}
		}
	}
	return all
}

func (l Layout) foreignRoutes(k Kernel) (all []Refusal) {
	for _, r := range k.Routes {
		used := r.Table >= l.FirstTable && r.Table < l.FirstTable+len(l.Uplinks) || r.Table == l.ActiveTable
		for _, u := range l.Uplinks {
			used = used || u.Table == r.Table
		}
		if used && r.Protocol != l.Protocol && !l.overwritten(k, r) {
			all = append(all, Refusal{ForeignRoute, "",
				fmt.Sprintf("table %d holds a route of somebody else's: %v", r.Table, r),
				"have it set up in another table; until then: " + Step{Op: Delete, Route: r}.Command()})
		}
	}
	return all
}

func (l Layout) lowMetric(k Kernel) (all []Refusal) {
	for _, r := range k.Routes {
		if r.Table == MainTable && r.isDefault() && r.Protocol != l.Protocol && r.Metric <= l.Metric && (l.V6 || !r.v6()) {
			all = append(all, Refusal{LowMetric, "",
				fmt.Sprintf("simple mode cannot come before a default with metric %d (ours has %d): %v", r.Metric, l.Metric, r),
				"give it a higher metric, or do not use simple mode"})
		}
	}
	return all
}

// sameSubnet finds uplinks of which main can only reach one, and names the one that is
// less preferred, but never the one in use. Links with one other end may well have the
// same one.
func (l Layout) sameSubnet() (all []Refusal) {
	for i, b := range l.Uplinks {
		for _, a := range l.Uplinks[:i] {
			for _, p := range a.Connected {
				for _, q := range b.Connected {
					if p.Addr().Is6() && !l.V6 || a.PointToPoint && b.PointToPoint || !contested(a, p, b, q) {
						continue
					}
					less := b.Name
					if less == l.Active {
						less = a.Name
					}
					all = append(all, Refusal{SameSubnet, less,
						fmt.Sprintf("%s (%s) and %s (%s) are connected to the same addresses: %v and %v", a.Name, a.Interface, b.Name, b.Interface, p, q),
						fmt.Sprintf("give the router of one of them another subnet on its LAN side, such as 192.168.77.0/24, and have %s ask for an address again", b.Interface)})
				}
			}
		}
	}
	return all
}

// contested tells whether what one uplink is connected to hides the other: the
// same prefix, or a longer one around the other's gateway or address. A few
// addresses hidden in a wide prefix, such as a provider's 100.64.0.0/10, are not.
func contested(a Uplink, p netip.Prefix, b Uplink, q netip.Prefix) bool {
	if !p.Overlaps(q) || p == q {
		return p == q
	}
	wide, long := a, q
	if p.Bits() > q.Bits() {
		wide, long = b, p
	}
	source, gateway := wide.way(p.Addr().Is6())
	return long.Contains(source) || long.Contains(gateway)
}

func (u Uplink) refusals(k Kernel, v6 bool) (all []Refusal) {
	link, there := k.link(u.Interface)
	if vrf := k.vrf(link); there && vrf != "" {
		all = append(all, Refusal{InVRF, u.Name,
			fmt.Sprintf("%s of %s is part of the VRF %s, whose routes are not in main", u.Interface, u.Name, vrf),
			fmt.Sprintf("ip link set %s nomaster", link.Name)})
	}
	if u.Index != 0 && (!there || u.Index != link.Index) {
		all = append(all, Refusal{OtherLink, u.Name,
			fmt.Sprintf("%s of %s is not the interface that it was (index %d)", u.Interface, u.Name, u.Index),
			"discover it again"})
	}
	for _, f := range []bool{false, true} {
		_, gateway := u.way(f)
		if !u.Has(f) || !gateway.IsValid() || u.OnLink || f && !v6 || u.onLink(gateway) {
			continue
		}
		all = append(all, Refusal{OffLink, u.Name,
			fmt.Sprintf("gateway %v of %s is not in what %s is connected to (%s)", gateway, u.Name, u.Interface, list(u.Connected)),
			fmt.Sprintf("if it is reached on the link all the same: ip route replace default via %v dev %s onlink metric N, and gateway: auto", gateway, u.Interface)})
	}
	return all
}

func list(all []netip.Prefix) string {
	if len(all) == 0 {
		return "nothing"
	}
	s := make([]string, len(all))
	for i, p := range all {
		s[i] = p.String()
	}
	return strings.Join(s, ", ")
}

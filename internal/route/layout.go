package route

import (
	"math/bits"
	"net/netip"
	"slices"
)

// Uplink is one way to the internet. An address that is not valid is one that
// there is none of.
type Uplink struct {
	Name      string // what people call it
	Interface string
	Index     int    // of the interface, to notice that it is another one now; 0: whichever bears the name
	Mark      uint32 // of its probes, within the layout's mask; 0: by its place in the list
	Unmarked  bool   // no rule leads the mark to its table: probes get there by its address alone
	Table     int    // of its own; 0: by its place in the list

	Source4, Source6   netip.Addr // its address; a family without one has no way out
	Gateway4, Gateway6 netip.Addr
	OnLink             bool           // a gateway need not be in a connected prefix
	PointToPoint       bool           // the link has one other end: no gateway is needed
	Connected          []netip.Prefix // what is reached on the link itself
	Metrics4, Metrics6 Metrics        // of its defaults
}

// Has tells whether a family has a way out by the uplink.
func (u Uplink) Has(v6 bool) bool {
	source, gateway := u.way(v6)
	return source.IsValid() && (gateway.IsValid() || u.PointToPoint)
}

func (u Uplink) way(v6 bool) (source, gateway netip.Addr) {
	if v6 {
		return u.Source6, u.Gateway6
	}
	return u.Source4, u.Gateway4
}

// onLink tells whether a gateway is reached on the link by what is connected.
func (u Uplink) onLink(gateway netip.Addr) bool {
	return gateway.IsLinkLocalUnicast() && gateway.Is6() ||
		slices.ContainsFunc(u.Connected, func(p netip.Prefix) bool { return p.Contains(gateway) })
}

// Layout is the desired state. The place of an uplink in the list gives it its
// numbers: take away the path of one by [Layout.Without], not the uplink.
type Layout struct {
	Uplinks []Uplink
	Active  string // name of the uplink with the default; "": the active table is left as it is

	Protocol    uint8  // of every route and rule of ours, and of nobody else's
	FirstRule   int    // priorities from here to 12 above are ours, and 1 below for each uplink after the second
	ActiveTable int    // holds the active default
	FirstTable  int    // of the first uplink; six more above are ours
	Mask        uint32 // the bits of a packet's mark that are looked at
	Simple      bool   // no rules and tables, only one default in main: what main holds decides, and probes have no way of their own
	Metric      uint32 // of that default; all others must have a higher one
	V6          bool   // IPv6 too, where the kernel has it
}

// Default returns a layout without uplinks, with the usual numbers.
func Default() Layout {
	return Layout{
		Protocol: 219, FirstRule: 20998, ActiveTable: 8710, FirstTable: 8711,
		Mask: wholeMark, Metric: 5, V6: true,
	}
}

// wholeMark takes for ours only packets that bear one of our marks and nothing else.
const wholeMark = ^uint32(0)

// MaxUplinks is how many there can be, if the mask has marks for them.
const MaxUplinks = 7

// lastMetric is that of `unreachable default`, behind all others.
const lastMetric = 4278198272

// Numbered returns the layout with the marks and tables that go by place filled in.
func (l Layout) Numbered() Layout {
	shift := bits.TrailingZeros32(l.Mask)
	if l.Mask == wholeMark {
		shift = 8 // the low ones are what people take first
	}
	l.Uplinks = slices.Clone(l.Uplinks)
	for i := range l.Uplinks {
		u := &l.Uplinks[i]
		if u.Mark == 0 {
			u.Mark = uint32(i+1) << shift
		}
		if u.Table == 0 {
			u.Table = l.FirstTable + i
		}
	}
	return l
}

// Without returns the layout with no path by an uplink: its table ends all
// probes as unreachable, and it cannot be the active one's way.
func (l Layout) Without(name string) Layout {
	l.Uplinks = slices.Clone(l.Uplinks)
	for i, u := range l.Uplinks {
		if u.Name == name {
			l.Uplinks[i] = Uplink{Name: u.Name, Interface: u.Interface, Mark: u.Mark, Unmarked: u.Unmarked, Table: u.Table}
		}
	}
	return l
}

// Around returns a layout that a refusal is no reason against: where the mark of an
// uplink is somebody else's there is no rule for it, and any other has no path.
func (l Layout) Around(r Refusal) Layout {
	if r.Kind != ForeignMark {
		return l.Without(r.Uplink)
	}
	l.Uplinks = slices.Clone(l.Uplinks)
	for i, u := range l.Uplinks {
		l.Uplinks[i].Unmarked = u.Unmarked || u.Name == r.Uplink
	}
	return l
}

func (l Layout) probeRule(i int) int {
	if i < 2 {
		return l.FirstRule + i
	}
	return l.FirstRule + 1 - i // below the others: their order does not matter
}

func (l Layout) lowestRule() int    { return min(l.FirstRule, l.probeRule(len(l.Uplinks)-1)) }
func (l Layout) mainRule() int      { return l.FirstRule + 2 }
func (l Layout) fromRule(i int) int { return l.FirstRule + 5 + i }
func (l Layout) activeRule() int    { return l.FirstRule + 12 }
func (l Layout) within(rule Rule) bool {
	return l.lowestRule() <= rule.Priority && rule.Priority <= l.activeRule()
}

// ownTable tells whether a table is, or was with more uplinks, one of ours.
func (l Layout) ownTable(table int) bool {
	return table == l.ActiveTable ||
		table >= l.FirstTable && table < l.FirstTable+MaxUplinks ||
		slices.ContainsFunc(l.Uplinks, func(u Uplink) bool { return u.Table == table })
}

// owns tells whether a route is in a place of ours.
func (l Layout) owns(r Route) bool {
	return l.ownTable(r.Table) || r.Table == MainTable && r.isDefault() && r.Metric == l.Metric
}

// ownsRule tells the same of a rule.
func (l Layout) ownsRule(r Rule) bool {
	return l.Lowest() <= r.Priority && r.Priority <= l.activeRule() && (r.Table == MainTable || l.ownTable(r.Table))
}

func (l Layout) active() (Uplink, bool) {
	i := slices.IndexFunc(l.Uplinks, func(u Uplink) bool { return u.Name == l.Active })
	if l.Active == "" || i < 0 {
		return Uplink{}, false
	}
	return l.Uplinks[i], true
}

package netshape

import (
	"slices"

	"trafficup/internal/dscpmark"
)

// ClassStatus is what was counted of a class since the table was made, of IPv4 and
// IPv6, and of both directions of a connection.
type ClassStatus struct {
	Class string `json:"class"` // NoClass: what leaves by an uplink and is of none
	Count        // what left with the mark of the class; of NoClass: without one
	Here  Count  `json:"from_here"` // what was sent by this machine
	LAN   Count  `json:"from_lan"`  // what it forwards
}

// Count is of packets.
type Count struct {
	Packets uint64 `json:"packets"`
	Bytes   uint64 `json:"bytes"`
}

func (c *Count) add(o Count) { c.Packets, c.Bytes = c.Packets+o.Packets, c.Bytes+o.Bytes }

// NoClass stands for a class where there is none: none can have that name.
const NoClass = "-"

// classesOf sums up rules: one entry for each class, NoClass last. Each packet is
// counted where its class is found and, when it is of one, where it leaves.
func classesOf(rules []dscpmark.Rule) (list []ClassStatus) {
	none := ClassStatus{Class: NoClass}
	for _, r := range rules {
		of, n := &none, Count{r.Packets, r.Bytes}
		if r.Class != "" {
			i := slices.IndexFunc(list, func(c ClassStatus) bool { return c.Class == r.Class })
			if i < 0 {
				i, list = len(list), append(list, ClassStatus{Class: r.Class})
			}
			of = &list[i]
		}
		switch r.Chain {
		case dscpmark.ChainOut:
			of.Here.add(n)
		case dscpmark.ChainFwd:
			of.LAN.add(n)
		default:
			of.add(n)
		}
	}
	if len(rules) == 0 {
		return nil
	}
	none.add(none.Here)
	none.add(none.LAN)
	return append(list, none)
}

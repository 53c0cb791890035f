package netshape

import (
	"cmp"
	"fmt"
	"strings"

	"trafficup/internal/dscpmark"
	"trafficup/internal/tc"
)

// commands are what a person would type for a change. They are printed and never
// run: no shell has a part in this package.
func commands(c change) []string {
	dev, ifb := cmp.Or(c.dev, c.Interface), ifbName(c.Interface)
	switch {
	case c.Slot == slotRoot && c.To.ours():
		return shaperCommands(dev, c.To.Shaper)
	case c.Slot == slotRoot && c.To.foreign():
		return c.To.Foreign.commands(dev)
	case c.Slot == slotRoot:
		return []string{"tc qdisc del dev " + dev + " root"}
	case c.To.ours():
		return append([]string{
			fmt.Sprintf("ip link add %s type ifb && ip link set %s alias '%s' up", ifb, ifb, tc.IfbAlias),
			fmt.Sprintf("tc qdisc add dev %s handle ffff: ingress", dev),
			fmt.Sprintf("tc filter add dev %s parent ffff: protocol all prio 31312 handle ::2 u32 match u32 0 0 action mirred egress redirect dev %s", dev, ifb), // the number says that the qdisc is ours, too
		}, shaperCommands(ifb, c.To.Shaper)...)
	}
	return []string{"tc qdisc del dev " + dev + " ingress", "ip link del " + ifb}
}

func shaperCommands(dev string, s tc.Shaper) []string {
	if s.Kind == tc.KindCake {
		return []string{fmt.Sprintf("tc qdisc replace dev %s root handle %x: cake %s", dev, tc.CakeHandle>>16, strings.Join(cakeWords(s.Cake), " "))}
	}
	return htbCommands(dev, s.HTB)
}

// htbCommands are those for the tree that tc.HTB describes.
func htbCommands(dev string, h tc.HTB) []string {
	const major = tc.HTBHandle >> 16
	list := []string{
		fmt.Sprintf("tc qdisc replace dev %s root handle %x: htb default 20", dev, major),
		fmt.Sprintf("tc class replace dev %s parent %x: classid %x:1 htb rate %s quantum 1514", dev, major, major, FormatRate(h.Rate)),
	}
	type class struct {
		id, prio int
		rate     uint64
	}
	classes := []class{{20, 1, h.Rate}}
	if h.Tins {
		half, bulk := h.Rate/16*8, h.Rate/128*8 // in whole bytes
		classes = []class{{10, 0, half}, {20, 1, h.Rate - half - bulk}, {30, 2, bulk}}
	}
	for _, c := range classes {
		list = append(list, fmt.Sprintf("tc class replace dev %s parent %x:1 classid %x:%d htb rate %s ceil %s prio %d quantum 1514",
			dev, major, major, c.id, FormatRate(c.rate), FormatRate(h.Rate), c.prio))
		if !h.FIFO {
			list = append(list, fmt.Sprintf("tc qdisc replace dev %s parent %x:%d fq_codel %s", dev, major, c.id, strings.Join(leafWords(h.Codel), " ")))
		}
	}
	if h.Tins {
		list = append(list, dscpCommands(dev, major)...)
	}
	return list
}

// dscpCommands are the filters that send LE and CS1 to the last class and what is
// urgent to the first.
func dscpCommands(dev string, major uint32) (list []string) {
	for _, family := range []struct {
		name, match string
		prio, shift int
	}{{"ip", "u8 0x%02x 0x%02x at 1", 1, 2}, {"ipv6", "u16 0x%04x 0x%04x at 0", 2, 6}} {
		for _, r := range []struct{ dscp, mask, class int }{{1, 0x3f, 30}, {8, 0x3f, 30}, {0x20, 0x20, 10}, {0x10, 0x30, 10}} {
			match := fmt.Sprintf(family.match, r.dscp<<family.shift, r.mask<<family.shift)
			list = append(list, fmt.Sprintf("tc filter add dev %s parent %x: protocol %s prio %d u32 match %s flowid %x:%d",
				dev, major, family.name, family.prio, match, major, r.class))
		}
	}
	return list
}

// nftCommands are the table as it is given to nft -f.
func nftCommands(t tables, c *dscpmark.Config) []string {
	if c == nil {
		return []string{"nft delete table inet trafficup"}
	}
	script, err := t.Script(*c)
	if err != nil {
		return nil // Apply will say why
	}
	return append([]string{"nft -f - <<END"}, append(strings.Split(strings.TrimSpace(script), "\n"), "END")...)
}

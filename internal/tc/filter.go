package tc

import (
	"encoding/binary"
)

// filter is a u32 filter that compares one word of a packet, in the network's
// byte order, and sends what matches to a class or, with a link, to the end of
// that instead. They are asked in the order of their prio.
type filter struct {
	parent         uint32
	prio, protocol uint16 // an Ethernet type
	handle         uint32 // counts from 1 within a prio
	offset         int    // from the network header on, bytes
	mask, value    uint32
	class          uint32
	link           int // 0: none
}

const (
	protocolAll  = 0x0003
	protocolIPv4 = 0x0800
	protocolIPv6 = 0x86dd
)

// dscpFilters sort packets into the three classes of an HTB.
func dscpFilters() (fs []filter) {
	rules := []struct{ mask, dscp, class uint32 }{
		{0x3f, 1, bulkClass},           // LE
		{0x3f, 8, bulkClass},           // CS1
		{0x20, 0x20, interactiveClass}, // 32 and up
		{0x30, 0x10, interactiveClass}, // 16 to 31
	}
	for i, family := range []struct {
		protocol uint16
		shift    int // of the DSCP in the header's first word
	}{{protocolIPv4, 18}, {protocolIPv6, 22}} {
		for n, r := range rules {
			fs = append(fs, filter{
				parent: HTBHandle, prio: uint16(i + 1), protocol: family.protocol, handle: uint32(n + 1),
				mask: r.mask << family.shift, value: r.dscp << family.shift, class: r.class,
			})
		}
	}
	return fs
}

// Attributes of u32 filters and of the action mirred.
const (
	u32Class  = 1
	u32Select = 5
	u32Action = 7

	actionKind    = 1
	actionOptions = 2
	mirredParams  = 2

	actionStolen   = 4
	redirectEgress = 1
)

// info is the priority and, in the network's byte order, the protocol.
func (f filter) info() uint32 {
	return uint32(f.prio)<<16 | uint32(swap(f.protocol))
}

// swap turns a number from the machine's byte order to the network's, or back.
func swap(n uint16) uint16 {
	return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, n))
}

func (f filter) encode() []byte {
	const terminal, keys = 1, 1
	sel := []byte{terminal, 0, keys, 0, 15: 0} // struct tc_u32_sel
	sel = binary.BigEndian.AppendUint32(sel, f.mask)
	sel = binary.BigEndian.AppendUint32(sel, f.value)
	sel = binary.NativeEndian.AppendUint32(sel, uint32(f.offset))
	sel = binary.NativeEndian.AppendUint32(sel, 0)
	var a attrs
	if f.class != 0 {
		a.u32(u32Class, f.class)
	}
	a.add(u32Select, sel)
	if f.link != 0 {
		a.add(u32Action, redirect(f.link))
	}
	return a
}

// redirect is a list of one action, numbered 1.
func redirect(link int) []byte {
	var options, action, list attrs
	options.words(mirredParams, 0, 0, actionStolen, 0, 0, redirectEgress, uint32(link)) // struct tc_mirred
	action.text(actionKind, "mirred")
	action.add(actionOptions, options)
	list.add(1, action)
	return list
}

// decodeFilter is false for what is no filter of this form. The tables that
// hold them are listed with them.
func decodeFilter(m message) (f filter, ok bool) {
	f = filter{parent: m.parent, prio: uint16(m.info >> 16), protocol: swap(uint16(m.info)), handle: m.handle & 0xfff}
	for typ, v := range all(m.options) {
		switch typ {
		case u32Class:
			f.class = v.u32()
		case u32Select:
			if len(v) < 32 || v[2] != 1 {
				return f, false
			}
			f.mask, f.value = binary.BigEndian.Uint32(v[16:]), binary.BigEndian.Uint32(v[20:])
			f.offset = int(int32(binary.NativeEndian.Uint32(v[24:])))
			ok = m.kind == "u32"
		case u32Action:
			f.link = redirectedTo(v)
		}
	}
	return f, ok
}

// redirectedTo is the link that the first of some actions sends packets to.
func redirectedTo(list value) int {
	for _, action := range all(list) {
		for typ, v := range all(action) {
			if typ != actionOptions {
				continue
			}
			for typ, v := range all(v) {
				if typ == mirredParams {
					return int(v.words(7)[6])
				}
			}
		}
		break
	}
	return 0
}

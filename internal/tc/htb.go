package tc

import (
	"slices"
	"time"
)

// HTB is the shaper for kernels without cake: a token bucket of one rate, below
// it a class for all traffic or three, each with an fq_codel.
//
// Of the three, packets with LE or CS1 go to Bulk, those with a DSCP of 16 or
// more (CS2, AF2x and up) to Interactive, all others to Best Effort, IPv4 and
// IPv6. That is cake's diffserv4 with video and voice in one. Each class may use
// the whole rate when the others do not; a half is Interactive's own, and a
// sixteenth Bulk's.
type HTB struct {
	Rate  uint64  // bit/s; required
	Tins  bool    // three classes
	Codel FqCodel // of each class
	FIFO  bool    // no fq_codel, for kernels without: a flow delays the others of its class
}

func (h HTB) normal() HTB {
	h.Rate &^= 7
	h.Codel = h.Codel.normal()
	if h.FIFO {
		h.Codel = FqCodel{}
	}
	return h
}

// Identifiers of what an HTB of ours consists of. Classes are named by how
// urgent they are; the leaf of each has a handle of its own.
const (
	topClass         = HTBHandle | 0x01
	interactiveClass = HTBHandle | 0x10
	normalClass      = HTBHandle | 0x20 // takes what no filter does
	bulkClass        = HTBHandle | 0x30
)

// leafHandle is that of the fq_codel in a class.
func leafHandle(class uint32) uint32 { return HTBHandle + class&0xffff<<16 }

// class is one in the tree. Rates are in bytes/s, times in the kernel's ticks.
type class struct {
	id, parent    uint32
	rate, ceil    uint64
	burst, cburst uint32
	prio, quantum uint32
}

// leaf is the fq_codel of a class.
type leaf struct {
	class, handle uint32
	codel         FqCodel
}

// tree is an HTB as the kernel holds it, each list in the order of identifiers.
// The kernel's own queue in a class is no leaf.
type tree struct {
	classes []class
	leaves  []leaf
	filters []filter
}

func (t tree) equal(o tree) bool {
	return slices.Equal(t.classes, o.classes) && slices.Equal(t.leaves, o.leaves) && slices.Equal(t.filters, o.filters)
}

// tree is what the kernel has to hold for h. With and without Tins the class
// for all other traffic is the same one, so that either becomes the other
// without a moment in which nothing shapes.
func (h HTB) tree() (t tree) {
	h = h.normal()
	all := h.Rate / 8
	t.classes = []class{newClass(topClass, HTBHandle, all, all, 0)}
	if h.Tins {
		t.classes = append(t.classes,
			newClass(interactiveClass, topClass, all/2, all, 0),
			newClass(normalClass, topClass, all-all/2-all/16, all, 1),
			newClass(bulkClass, topClass, all/16, all, 2))
		t.filters = dscpFilters()
	} else {
		t.classes = append(t.classes, newClass(normalClass, topClass, all, all, 1))
	}
	if !h.FIFO {
		for _, c := range t.classes[1:] {
			t.leaves = append(t.leaves, leaf{c.id, leafHandle(c.id), h.Codel})
		}
	}
	return t
}

// decodeHTB finds the HTB whose tree is t. It is false when there is none, as
// when somebody has changed a class.
func decodeHTB(t tree) (h HTB, ok bool) {
	if len(t.classes) == 0 {
		return h, false
	}
	h = HTB{Rate: t.classes[0].rate * 8, Tins: len(t.classes) > 2, FIFO: len(t.leaves) == 0}
	if !h.FIFO {
		h.Codel = t.leaves[0].codel
	}
	return h, h.tree().equal(t)
}

const (
	tick        = 64 * time.Nanosecond // unit of the bursts' lengths
	packetBytes = 1600                 // the least a burst must hold
)

// newClass has bursts of a millisecond, or of one packet if that takes longer:
// the kernel's timers are not finer.
func newClass(id, parent uint32, rate, ceil uint64, prio uint32) class {
	rate = max(rate, 1)
	burst := func(rate uint64) uint32 {
		d := time.Duration(packetBytes * uint64(time.Second) / max(rate, 1))
		return uint32(min(max(d, time.Millisecond)/tick, 1<<31))
	}
	return class{id: id, parent: parent, rate: rate, ceil: ceil, burst: burst(rate), cburst: burst(ceil), prio: prio, quantum: 1514}
}

// Attributes of HTB's options, uapi linux/pkt_sched.h.
const (
	htbClass  = 1 // struct tc_htb_opt
	htbGlobal = 2 // struct tc_htb_glob
	htbRate   = 6 // bytes/s
	htbCeil   = 7
)

// encodeHTB is what makes the qdisc itself.
func encodeHTB() []byte {
	const version, rateToQuantum = 3, 10
	var a attrs
	a.words(htbGlobal, version, rateToQuantum, normalClass&0xffff, 0, 0)
	return a
}

// ratespec are the words of struct tc_ratespec for Ethernet, which is what
// makes the kernel compute times itself instead of reading a table of them.
func ratespec(rate uint64) [3]uint32 {
	return [3]uint32{nativeBytes(0, 1, 0, 0), 0, uint32(min(rate, 1<<32-1))}
}

func (c class) encode() []byte {
	r, l := ratespec(c.rate), ratespec(c.ceil)
	var a attrs
	a.words(htbClass, r[0], r[1], r[2], l[0], l[1], l[2], c.burst, c.cburst, c.quantum, 0, c.prio)
	a.u64(htbRate, c.rate) // beyond 32 bits; else the same again
	a.u64(htbCeil, c.ceil)
	return a
}

// decodeClass reads one class. Its rate may count other sizes than ours do;
// then it is false.
func decodeClass(m message) (c class, ok bool) {
	c = class{id: m.handle, parent: m.parent}
	if c.parent == Root { // how the kernel says that no class is above
		c.parent = m.handle &^ 0xffff
	}
	for typ, v := range all(m.options) {
		switch typ {
		case htbClass:
			w := v.words(11)
			plain := ratespec(0)
			ok = [2]uint32(w[:2]) == [2]uint32(plain[:2]) && [2]uint32(w[3:5]) == [2]uint32(plain[:2])
			c.rate, c.ceil = max(c.rate, uint64(w[2])), max(c.ceil, uint64(w[5]))
			c.burst, c.cburst, c.quantum, c.prio = w[6], w[7], w[8], w[10]
		case htbRate:
			c.rate = v.num()
		case htbCeil:
			c.ceil = v.num()
		}
	}
	return c, ok
}

// className is the tin's that a class stands for, or "".
func className(id uint32) string {
	return map[uint32]string{bulkClass: "Bulk", normalClass: "Best Effort", interactiveClass: "Interactive"}[id]
}

// classTin is a class seen as a tin. What its queue has dropped only the queue
// tells.
func classTin(name string, c class, s Stats, qs []Qdisc) Tin {
	t := Tin{Name: name, Packets: s.Packets, Bytes: s.Bytes, Dropped: s.Drops, Backlog: s.Backlog, Threshold: c.rate * 8}
	for _, q := range qs {
		if q.Parent == c.id {
			t.Dropped, t.Marked = q.Stats.Drops, q.Stats.Marked
		}
	}
	return t
}

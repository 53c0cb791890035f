package tc

import "encoding/binary"

// Attributes of messages about qdiscs, classes and filters alike.
const (
	tcaKind    = 1
	tcaOptions = 2
	tcaStats2  = 7
	tcaBlock   = 13 // ingress

	statsBasic     = 1
	statsQueue     = 3
	statsApp       = 4
	statsPackets64 = 8
)

// head is the kernel's struct tcmsg, whose first word is the address family.
type head struct {
	link                 int
	handle, parent, info uint32
}

const headSize = 20

func (h head) encode() []byte {
	b := make([]byte, 0, headSize)
	for _, n := range []uint32{0, uint32(h.link), h.handle, h.parent, h.info} {
		b = binary.NativeEndian.AppendUint32(b, n)
	}
	return b
}

// message is one about a qdisc, a class or a filter.
type message struct {
	head
	kind    Kind
	options []byte
	stats   Stats
	app     value // the kind's own statistics
	block   uint32
}

// decode is false when b is too short to be a message.
func decode(b []byte) (m message, ok bool) {
	if len(b) < headSize {
		return m, false
	}
	w := value(b).words(headSize / 4)
	m.head = head{link: int(int32(w[1])), handle: w[2], parent: w[3], info: w[4]}
	for typ, v := range all(b[headSize:]) {
		switch typ {
		case tcaKind:
			m.kind = Kind(v.text())
		case tcaOptions:
			m.options = v
		case tcaStats2:
			m.stats, m.app = decodeStats(v)
		case tcaBlock:
			m.block = v.u32()
		}
	}
	return m, true
}

func decodeStats(list []byte) (s Stats, app value) {
	var packets64 uint64
	for typ, v := range all(list) {
		switch typ {
		case statsBasic:
			if len(v) >= 12 {
				s.Bytes, s.Packets = v[:8].num(), v[8:12].num()
			}
		case statsPackets64:
			packets64 = v.num()
		case statsQueue:
			w := v.words(5)
			s.Queued, s.Backlog, s.Drops, s.Requeues, s.Overlimits = w[0], w[1], w[2], w[3], w[4]
		case statsApp:
			app = v
		}
	}
	s.Packets = max(s.Packets, packets64) // sent when 32 bits are too few
	return s, app
}

// qdisc is m seen as one. What an HTB of ours is its tree tells, not m.
func (m message) qdisc() Qdisc {
	q := Qdisc{Kind: m.kind, Handle: m.handle, Parent: m.parent, Default: m.handle == 0, Raw: m.options, Block: m.block, Stats: m.stats}
	switch m.kind {
	case KindCake:
		q.Tins = decodeCakeStats(m.app, &q.Stats)
		if c, ok := decodeCake(m.options); ok && m.parent == Root {
			q.Shaper = Shaper{Kind: KindCake, Cake: c}
		}
	case KindFqCodel:
		decodeFqCodelStats(m.app, &q.Stats)
	}
	return q
}

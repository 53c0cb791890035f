package tc

import (
	"encoding/json"
	"errors"
	"time"
)

// ErrUnknownKind is that of a kernel without the queue discipline asked for.
var ErrUnknownKind = errors.New("the kernel does not have this qdisc")

// Kind is the kernel's name of a queue discipline.
type Kind string

// The kinds that this package knows more of than the name.
const (
	KindCake    Kind = "cake"
	KindFqCodel Kind = "fq_codel"
	KindHTB     Kind = "htb"
	KindIngress Kind = "ingress"
)

// Handles of what this package sets, by which it is known again. A handle
// cannot change its kind, so each kind has its own.
const (
	CakeHandle uint32 = 0x7a50 << 16
	HTBHandle  uint32 = 0x7a51 << 16
)

// IfbAlias is what an ifb that we made says of itself.
const IfbAlias = "made by trafficup netshape"

// Parents of a qdisc that is not below another.
const (
	Root    uint32 = 0xffffffff
	Ingress uint32 = 0xfffffff1 // of ingress and clsact
)

// Shaper is what stands at the root of an interface. Only the field that Kind
// names counts; the other is zero.
type Shaper struct {
	Kind Kind // KindCake or KindHTB; "" is none
	Cake Cake
	HTB  HTB
}

// Normal returns s as the kernel reads it back: defaults are filled in and
// numbers are rounded to the kernel's units.
func (s Shaper) Normal() Shaper {
	switch s.Kind {
	case KindCake:
		return Shaper{Kind: KindCake, Cake: s.Cake.normal()}
	case KindHTB:
		return Shaper{Kind: KindHTB, HTB: s.HTB.normal()}
	}
	return s
}

// Qdisc is a queue discipline that stands in the kernel.
type Qdisc struct {
	Kind           Kind
	Handle, Parent uint32
	Default        bool   // the kernel's own, which nobody has set; it returns when another is deleted
	Shaper         Shaper // Kind is "" unless it stands at the root and a Shaper says all of it
	Raw            []byte // TCA_OPTIONS
	Block          uint32 // of ingress: where its filters are, together with those of other links; 0: it has its own
	Stats          Stats
	Tins           []Tin // of cake, or the classes of an HTB of ours, from the least urgent on
}

// Stats are counted since the qdisc was made.
type Stats struct {
	Bytes      uint64 `json:"bytes"`   // sent
	Packets    uint64 `json:"packets"` // sent
	Drops      uint32 `json:"drops"`
	Overlimits uint32 `json:"overlimits"`
	Requeues   uint32 `json:"requeues"`
	Queued     uint32 `json:"queued_packets"`
	Backlog    uint32 `json:"backlog_bytes"`
	Marked     uint32 `json:"marked"`       // packets with ECN; cake's and fq_codel's only
	Memory     uint32 `json:"memory_bytes"` // in use; cake's and fq_codel's only
}

// Tin is a class of traffic. What only cake knows is zero for others.
type Tin struct {
	Name        string `json:"name"`         // Bulk, Best Effort, Video, Voice; Interactive with HTB; Tin 0 and on where none is usual
	Packets     uint64 `json:"packets"`      // sent
	Bytes       uint64 `json:"bytes"`        // sent
	Dropped     uint32 `json:"dropped"`      // packets
	AcksDropped uint32 `json:"acks_dropped"` // packets, by the ack filter
	Marked      uint32 `json:"marked"`       // packets, with ECN
	Backlog     uint32 `json:"backlog_bytes"`
	Threshold   uint64 `json:"threshold_bit_s"` // above which it is served last; it is no limit

	// Times are in JSON as milliseconds: see MarshalJSON.
	Target    time.Duration `json:"-"` // of its queue management
	Interval  time.Duration `json:"-"` // of its queue management
	PeakDelay time.Duration `json:"-"` // of packets in the queue, of late
	AvgDelay  time.Duration `json:"-"` // of packets in the queue, of late
	BaseDelay time.Duration `json:"-"` // of packets in the queue, of late

	SparseFlows       uint32 `json:"sparse_flows"`       // now
	BulkFlows         uint32 `json:"bulk_flows"`         // now
	UnresponsiveFlows uint32 `json:"unresponsive_flows"` // now
	IndirectHits      uint32 `json:"indirect_hits"`      // of the hash of flows
	Misses            uint32 `json:"misses"`             // of the hash of flows
	Collisions        uint32 `json:"collisions"`         // of the hash of flows
	MaxPacket         uint32 `json:"max_packet_bytes"`
	Quantum           uint32 `json:"quantum_bytes"`
}

// MarshalJSON writes times as milliseconds.
func (t Tin) MarshalJSON() ([]byte, error) {
	type plain Tin // without this method
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	return json.Marshal(struct {
		plain
		Target    float64 `json:"target_ms"`
		Interval  float64 `json:"interval_ms"`
		PeakDelay float64 `json:"peak_delay_ms"`
		AvgDelay  float64 `json:"avg_delay_ms"`
		BaseDelay float64 `json:"base_delay_ms"`
	}{plain(t), ms(t.Target), ms(t.Interval), ms(t.PeakDelay), ms(t.AvgDelay), ms(t.BaseDelay)})
}

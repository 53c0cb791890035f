package tc

import (
	"fmt"
	"time"
)

// Attributes of cake's statistics. The kernel has numbers for bytes dropped and
// marked and packets in backlog, too, but does not send them.
const (
	cakeMemoryUsed = 4
	cakeTins       = 10

	tinPackets      = 2
	tinBytes        = 3
	tinDropped      = 4
	tinAcksDropped  = 6
	tinMarked       = 8
	tinBacklog      = 11
	tinThreshold    = 12 // bytes/s
	tinTarget       = 13 // µs, as the next
	tinInterval     = 14
	tinIndirectHits = 15
	tinMisses       = 16
	tinCollisions   = 17
	tinPeakDelay    = 18 // µs, as the next two
	tinAvgDelay     = 19
	tinBaseDelay    = 20
	tinSparse       = 21
	tinBulk         = 22
	tinUnresponsive = 23
	tinMaxPacket    = 24
	tinQuantum      = 25
)

// decodeCakeStats adds what cake says of itself to s and returns its tins.
func decodeCakeStats(app []byte, s *Stats) (tins []Tin) {
	for typ, v := range all(app) {
		switch typ {
		case cakeMemoryUsed:
			s.Memory = v.u32()
		case cakeTins:
			for _, tin := range all(v) { // in the order of their numbers, from 1
				t := decodeTin(tin)
				s.Marked += t.Marked
				tins = append(tins, t)
			}
		}
	}
	for i := range tins {
		tins[i].Name = tinName(i, len(tins))
	}
	return tins
}

// tinName is what tc calls the i-th of n tins.
func tinName(i, n int) string {
	switch n {
	case 1:
		return "Best Effort"
	case 3:
		return [...]string{"Bulk", "Best Effort", "Voice"}[i]
	case 4:
		return [...]string{"Bulk", "Best Effort", "Video", "Voice"}[i]
	}
	return fmt.Sprintf("Tin %d", i)
}

func decodeTin(list []byte) (t Tin) {
	for typ, v := range all(list) {
		switch typ {
		case tinPackets:
			t.Packets = v.num()
		case tinBytes:
			t.Bytes = v.num()
		case tinDropped:
			t.Dropped = v.u32()
		case tinAcksDropped:
			t.AcksDropped = v.u32()
		case tinMarked:
			t.Marked = v.u32()
		case tinBacklog:
			t.Backlog = v.u32()
		case tinThreshold:
			t.Threshold = v.num() * 8
		case tinTarget:
			t.Target = micros(v)
		case tinInterval:
			t.Interval = micros(v)
		case tinIndirectHits:
			t.IndirectHits = v.u32()
		case tinMisses:
			t.Misses = v.u32()
		case tinCollisions:
			t.Collisions = v.u32()
		case tinPeakDelay:
			t.PeakDelay = micros(v)
		case tinAvgDelay:
			t.AvgDelay = micros(v)
		case tinBaseDelay:
			t.BaseDelay = micros(v)
		case tinSparse:
			t.SparseFlows = v.u32()
		case tinBulk:
			t.BulkFlows = v.u32()
		case tinUnresponsive:
			t.UnresponsiveFlows = v.u32()
		case tinMaxPacket:
			t.MaxPacket = v.u32()
		case tinQuantum:
			t.Quantum = v.u32()
		}
	}
	return t
}

func micros(v value) time.Duration { return time.Duration(v.u32()) * time.Microsecond }

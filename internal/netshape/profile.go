package netshape

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"trafficup/internal/tc"
)

// profile is what is known of a kind of link before anybody has measured it.
type profile struct {
	rtt      time.Duration // of the paths behind it; the queue lets bursts of that length pass
	overhead int           // bytes per packet beyond what the kernel sees; -1: not known
	mpu      int           // bytes: the shortest frame
	ack      string
}

// Dishes are fed by Ethernet, whose framing takes 38 bytes and no frame is shorter
// than 84 with it. What LTE adds is not known; the rate's margin has room for it.
var profiles = map[string]profile{
	"":    {rtt: 100 * time.Millisecond, overhead: -1, ack: "auto"},
	"leo": {rtt: 100 * time.Millisecond, overhead: 38, mpu: 84, ack: "auto"},
	"geo": {rtt: time.Second, overhead: 38, mpu: 84, ack: "auto"},
	"lte": {rtt: 150 * time.Millisecond, overhead: -1, ack: "auto"},
}

// ackRatio is down over up from which the acks of downloads fill the uplink.
const ackRatio = 10

// settings are a profile with what the Spec says otherwise.
type settings struct {
	diffserv tc.Diffserv
	ack      tc.AckFilter
	rtt      time.Duration
	overhead int // -1: not known
	mpu      int
	nat      bool
	wash     bool
}

var diffservs = map[string]tc.Diffserv{
	"besteffort": tc.BestEffort, "diffserv3": tc.Diffserv3, "diffserv4": tc.Diffserv4, "diffserv8": tc.Diffserv8, "precedence": tc.Precedence,
}

func options(s Spec, up, down uint64) (settings, error) {
	p, ok := profiles[s.Profile]
	if !ok {
		return settings{}, fmt.Errorf("%q is no profile: want leo, geo or lte", s.Profile)
	}
	o := settings{diffserv: tc.Diffserv4, rtt: p.rtt, overhead: p.overhead, mpu: p.mpu, nat: true, wash: s.Wash}
	if s.Diffserv != "" {
		if o.diffserv, ok = diffservs[s.Diffserv]; !ok {
			return o, fmt.Errorf("diffserv %q: want one of %s", s.Diffserv, strings.Join(slices.Sorted(maps.Keys(diffservs)), ", "))
		}
	}
	if s.RTT != 0 {
		if s.RTT < time.Millisecond || s.RTT > 10*time.Second {
			return o, fmt.Errorf("rtt %v: want 1ms to 10s, the time to the servers and back; 100ms is usual", s.RTT)
		}
		o.rtt = s.RTT.Truncate(time.Microsecond) // the kernel's unit
	}
	if s.Overhead != nil {
		if o.overhead = *s.Overhead; o.overhead < -64 || o.overhead > 256 {
			return o, fmt.Errorf("overhead %d: want -64 to 256 bytes; 38 is that of Ethernet", o.overhead)
		}
		o.mpu = 0
	}
	if s.MPU != 0 {
		if o.mpu = s.MPU; o.mpu < 0 || o.mpu > 256 {
			return o, fmt.Errorf("mpu %d: want 0 to 256 bytes; 84 is that of Ethernet", o.mpu)
		}
	}
	if s.NAT != nil {
		o.nat = *s.NAT
	}
	return o, o.setAckFilter(cmp.Or(s.AckFilter, p.ack), up, down)
}

// setAckFilter thins out acks only where there are too many of them: dropping
// them costs time and makes bursts.
func (o *settings) setAckFilter(word string, up, down uint64) error {
	switch word {
	case "off":
		o.ack = tc.NoAckFilter
	case "on":
		o.ack = tc.AckFilterOn
	case "aggressive":
		o.ack = tc.AckFilterAggressive
	case "auto":
		if up > 0 && down/ackRatio > up {
			o.ack = tc.AckFilterOn
		}
	default:
		return fmt.Errorf("ack-filter %q: want auto, on, off or aggressive", word)
	}
	return nil
}

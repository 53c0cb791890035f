package netshape

import (
	"time"

	"trafficup/internal/tc"
)

// cake is the queue for what goes out: fair between the hosts behind us first,
// and between their flows then.
func (o settings) cake(rate uint64) tc.Shaper {
	c := tc.Cake{
		Rate: rate, Diffserv: o.diffserv, Flows: tc.DualSrcHost, RTT: o.rtt, MPU: o.mpu,
		AckFilter: o.ack, NAT: o.nat, Wash: o.wash, SplitGSO: true,
	}
	if o.overhead >= 0 || o.overhead < -1 {
		c.Overhead, c.HasOverhead = o.overhead, true
	}
	return tc.Shaper{Kind: tc.KindCake, Cake: c}
}

// cakeIn is the queue for what comes in: the marks of strangers say nothing here
// and are cleared.
func (o settings) cakeIn(rate uint64) tc.Shaper {
	s := o.cake(rate)
	s.Cake.Diffserv, s.Cake.Flows, s.Cake.AckFilter = tc.BestEffort, tc.DualDstHost, tc.NoAckFilter
	s.Cake.Wash, s.Cake.Ingress = true, true
	return s
}

// tins reports whether classes get queues of their own.
func (o settings) tins() bool { return o.diffserv != tc.BestEffort }

// htb is what does cake's work where the kernel has no cake.
func (o settings) htb(rate uint64, tins bool) tc.Shaper {
	leaf := tc.FqCodel{
		Limit: 1024, Flows: 1024, Quantum: 300,
		Target: max(o.rtt/20, 5*time.Millisecond), Interval: o.rtt, ECN: true,
	}
	// The delay that is borne is at least that of one packet and a half: at 900
	// kbit/s a single one takes 13 ms.
	if packet := time.Duration(1514 * 8 * float64(time.Second) / float64(max(rate, 1))); rate > 0 && leaf.Target < packet*3/2 {
		leaf.Target = (packet * 3 / 2).Truncate(time.Microsecond)
		leaf.Interval = max(leaf.Interval, leaf.Target)
	}
	return tc.Shaper{Kind: tc.KindHTB, HTB: tc.HTB{Rate: rate, Tins: tins, Codel: leaf}}
}

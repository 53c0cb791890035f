package tc

import "time"

// Diffserv says how cake sorts packets into tins by their DSCP. The numbers are
// the kernel's.
type Diffserv uint32

const (
	Diffserv3  Diffserv = iota // bulk, best effort, voice
	Diffserv4                  // and video
	Diffserv8                  // eight, whose order surprises
	BestEffort                 // one tin
	Precedence                 // eight, by the upper three bits, which is obsolete
)

// String is tc's word.
func (d Diffserv) String() string {
	return word(d, "diffserv3", "diffserv4", "diffserv8", "besteffort", "precedence")
}

// FlowMode says between what cake is fair. The numbers are the kernel's, whose
// default is TripleIsolate.
type FlowMode uint32

const (
	Flowblind     FlowMode = iota
	FlowSrcHost            // senders
	FlowDstHost            // receivers
	FlowHosts              // pairs of them
	Flows                  // flows
	DualSrcHost            // senders, then the flows of each: for what goes out
	DualDstHost            // receivers, then the flows of each: for what comes in
	TripleIsolate          // both, then flows
)

// String is tc's word.
func (m FlowMode) String() string {
	return word(m, "flowblind", "srchost", "dsthost", "hosts", "flows", "dual-srchost", "dual-dsthost", "triple-isolate")
}

// ATM says that the link cuts packets into cells.
type ATM uint32

const (
	NoATM ATM = iota
	ATMCells
	PTM
)

// String is tc's word.
func (a ATM) String() string { return word(a, "noatm", "atm", "ptm") }

// AckFilter says whether cake drops TCP acknowledgements that a later one in
// the queue makes needless.
type AckFilter uint32

const (
	NoAckFilter AckFilter = iota
	AckFilterOn
	AckFilterAggressive
)

// String is tc's word.
func (f AckFilter) String() string {
	return word(f, "no-ack-filter", "ack-filter", "ack-filter-aggressive")
}

func word[T ~uint32](i T, words ...string) string {
	if int(i) < len(words) {
		return words[i]
	}
	return "unknown"
}

// Cake holds the options of a cake. All of them are sent always: the kernel
// keeps what it is not sent when it changes one.
type Cake struct {
	Rate     uint64 // bit/s; 0: unlimited
	Diffserv Diffserv
	Flows    FlowMode
	RTT      time.Duration // 0: 100 ms

	// Overhead is what the link adds to a packet, in bytes. With HasOverhead it
	// counts from the packet's network header on, else (tc's raw) from what the
	// interface says is its size.
	Overhead    int
	HasOverhead bool
	MPU         int // least size of a packet on the link, bytes; 0: none
	ATM         ATM

	AckFilter AckFilter
	NAT       bool   // look up the hosts behind NAT, for Flows
	Wash      bool   // set all DSCP to 0 on the way out
	SplitGSO  bool   // take large packets apart
	Ingress   bool   // it stands behind the bottleneck
	FwMark    uint32 // mask: where these bits of the packet's mark are not 0, they are the tin's number
	Memory    uint32 // bytes; 0: as the rate needs
}

// Attributes of cake's options, uapi linux/pkt_sched.h.
const (
	cakeRate      = 2 // bytes/s
	cakeDiffserv  = 3
	cakeATM       = 4
	cakeFlows     = 5
	cakeOverhead  = 6
	cakeRTT       = 7 // µs
	cakeTarget    = 8 // µs
	cakeAutorate  = 9
	cakeMemory    = 10
	cakeNAT       = 11
	cakeRaw       = 12 // by presence
	cakeWash      = 13
	cakeMPU       = 14
	cakeIngress   = 15
	cakeAckFilter = 16
	cakeSplitGSO  = 17
	cakeFwMark    = 18
)

func (c Cake) normal() Cake {
	if c.RTT <= 0 {
		c.RTT = 100 * time.Millisecond
	}
	c.Rate &^= 7
	c.RTT = max(c.RTT.Truncate(time.Microsecond), time.Microsecond)
	return c
}

// target is how long a packet may wait where the round trip takes rtt, in µs.
// The kernel does not derive it.
func target(rtt time.Duration) uint32 { return max(uint32(rtt.Microseconds()/20), 1) }

func (c Cake) encode() []byte {
	c = c.normal()
	var a attrs
	a.u64(cakeRate, c.Rate/8)
	a.u32(cakeDiffserv, uint32(c.Diffserv))
	a.u32(cakeATM, uint32(c.ATM))
	a.u32(cakeFlows, uint32(c.Flows))
	a.u32(cakeOverhead, uint32(int32(c.Overhead)))
	if !c.HasOverhead {
		a.u32(cakeRaw, 0) // after the overhead, whose presence means the contrary
	}
	a.u32(cakeRTT, uint32(c.RTT.Microseconds()))
	a.u32(cakeTarget, target(c.RTT))
	a.u32(cakeAutorate, 0)
	a.u32(cakeMemory, c.Memory)
	a.flag(cakeNAT, c.NAT)
	a.flag(cakeWash, c.Wash)
	a.u32(cakeMPU, uint32(c.MPU))
	a.flag(cakeIngress, c.Ingress)
	a.u32(cakeAckFilter, uint32(c.AckFilter))
	a.flag(cakeSplitGSO, c.SplitGSO)
	a.u32(cakeFwMark, c.FwMark)
	return a
}

// decodeCake is false when options hold what a Cake cannot say.
func decodeCake(options []byte) (c Cake, ok bool) {
	c.HasOverhead = true
	var aim, autorate uint32
	for typ, v := range all(options) {
		switch typ {
		case cakeRate:
			c.Rate = v.num() * 8
		case cakeDiffserv:
			c.Diffserv = Diffserv(v.u32())
		case cakeATM:
			c.ATM = ATM(v.u32())
		case cakeFlows:
			c.Flows = FlowMode(v.u32())
		case cakeOverhead:
			c.Overhead = int(int32(v.u32()))
		case cakeRaw:
			c.HasOverhead = false
		case cakeRTT:
			c.RTT = time.Duration(v.u32()) * time.Microsecond
		case cakeTarget:
			aim = v.u32()
		case cakeAutorate:
			autorate = v.u32()
		case cakeMemory:
			c.Memory = v.u32()
		case cakeNAT:
			c.NAT = v.num() != 0
		case cakeWash:
			c.Wash = v.num() != 0
		case cakeMPU:
			c.MPU = int(v.u32())
		case cakeIngress:
			c.Ingress = v.num() != 0
		case cakeAckFilter:
			c.AckFilter = AckFilter(v.u32())
		case cakeSplitGSO:
			c.SplitGSO = v.num() != 0
		case cakeFwMark:
			c.FwMark = v.u32()
		}
	}
	return c, aim == target(c.RTT) && c.RTT > 0 && autorate == 0
}

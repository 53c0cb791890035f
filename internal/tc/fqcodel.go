package tc

import "time"

// FqCodel holds the options of an fq_codel. Zero numbers stand for the defaults
// of a slow link.
type FqCodel struct {
	Limit            uint32        // packets; 0: 1024
	Flows            uint32        // 0: 1024; the kernel cannot change it, the qdisc is made anew
	Quantum          uint32        // bytes; 0: 300, which lets small packets pass
	Memory           uint32        // bytes; 0: 32 MiB
	Target, Interval time.Duration // 0: 5 ms and 100 ms
	ECN              bool
}

// Attributes of fq_codel's options. Times are in µs.
const (
	codelTarget   = 1
	codelLimit    = 2
	codelInterval = 3
	codelECN      = 4
	codelFlows    = 5
	codelQuantum  = 6
	codelMark     = 7 // a delay above which to mark; sent only if set
	codelBatch    = 8 // packets dropped at once when it is full
	codelMemory   = 9
)

const usualBatch = 64

func (f FqCodel) normal() FqCodel {
	or := func(n *uint32, d uint32) {
		if *n == 0 {
			*n = d
		}
	}
	or(&f.Limit, 1024)
	or(&f.Flows, 1024)
	or(&f.Quantum, 300)
	or(&f.Memory, 32<<20)
	if f.Target <= 0 {
		f.Target = 5 * time.Millisecond
	}
	if f.Interval <= 0 {
		f.Interval = 100 * time.Millisecond
	}
	f.Quantum = max(f.Quantum, 256)    // as the kernel does
	const least = 2 * time.Microsecond // of which the kernel keeps anything
	f.Target, f.Interval = codelRound(kept(max(f.Target, least))), codelRound(kept(max(f.Interval, least)))
	return f
}

// kept is what the kernel gives back of a time, in µs: it keeps it in units of
// 1024 ns.
func kept(d time.Duration) uint64 { return uint64(d.Microseconds()) * 1000 >> 10 << 10 / 1000 }

// codelRound is the roundest time of which the kernel gives back us: 5 ms for
// 4999 µs.
func codelRound(us uint64) time.Duration {
	for unit := uint64(10000); unit > 1; unit /= 10 {
		t := time.Duration((us+unit-1)/unit*unit) * time.Microsecond
		if kept(t) == us {
			return t
		}
	}
	for t := us; t < us+3; t++ {
		if d := time.Duration(t) * time.Microsecond; kept(d) == us {
			return d
		}
	}
	return time.Duration(us) * time.Microsecond
}

// encode leaves the number of flows out when it is about one that stands: the
// kernel refuses to change it, be it the same.
func (f FqCodel) encode(stands bool) []byte {
	f = f.normal()
	var a attrs
	a.u32(codelTarget, uint32(f.Target.Microseconds()))
	a.u32(codelLimit, f.Limit)
	a.u32(codelInterval, uint32(f.Interval.Microseconds()))
	a.flag(codelECN, f.ECN)
	if !stands {
		a.u32(codelFlows, f.Flows)
	}
	a.u32(codelQuantum, f.Quantum)
	a.u32(codelBatch, usualBatch)
	a.u32(codelMemory, f.Memory)
	return a
}

// decodeFqCodel is false when options hold what an FqCodel cannot say.
func decodeFqCodel(options []byte) (f FqCodel, ok bool) {
	ok = true
	for typ, v := range all(options) {
		switch typ {
		case codelTarget:
			f.Target = codelRound(v.num())
		case codelLimit:
			f.Limit = v.u32()
		case codelInterval:
			f.Interval = codelRound(v.num())
		case codelECN:
			f.ECN = v.num() != 0
		case codelFlows:
			f.Flows = v.u32()
		case codelQuantum:
			f.Quantum = v.u32()
		case codelMark:
			ok = false
		case codelBatch:
			ok = ok && v.u32() == usualBatch
		case codelMemory:
			f.Memory = v.u32()
		}
	}
	return f, ok && f.Target > 0 && f.Interval > 0
}

// decodeFqCodelStats adds what fq_codel says of itself to s.
func decodeFqCodelStats(app value, s *Stats) {
	w := app.words(9)
	if w[0] != 0 { // of a class
		return
	}
	s.Marked, s.Memory = w[3], w[8]
}

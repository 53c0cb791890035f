package tc

import "math"

// TBF holds the options of a token bucket filter. Only others set one up.
type TBF struct {
	Rate  uint64 // bit/s
	Peak  uint64 // bit/s; 0: none
	Burst uint32 // bytes
	MTU   uint32 // bytes, the bucket of Peak
	Limit uint32 // bytes that wait at most
}

// FIFO holds the options of pfifo, in packets, and bfifo, in bytes.
type FIFO struct{ Limit uint32 }

// Options reads what the kernel says of a qdisc without classes: a [Cake], [FqCodel],
// [TBF] or [FIFO], or nil for kinds that have no options. ok is false for other kinds,
// and for options that these cannot say.
func Options(kind Kind, raw []byte) (o any, ok bool) {
	switch kind {
	case KindCake:
		o, ok = decodeCake(raw)
	case KindFqCodel:
		o, ok = decodeFqCodel(raw)
	case "tbf":
		o, ok = decodeTBF(raw)
	case "pfifo", "bfifo":
		o, ok = FIFO{value(raw).words(1)[0]}, len(raw) >= 4
	case "noqueue", "pfifo_fast", "mq":
		ok = true
	}
	return o, ok
}

// Attributes of a tbf's options.
const (
	tbfParms    = 1 // struct tc_tbf_qopt
	tbfRate64   = 4 // bytes/s
	tbfPeak64   = 5 // bytes/s
	tbfWords    = 9 // of the struct: two ratespecs of three, limit, buffer, mtu
	tbfLongTime = math.MaxUint32
)

func decodeTBF(options []byte) (t TBF, ok bool) {
	var w []uint32
	var rate, peak uint64
	for typ, v := range all(options) {
		switch typ {
		case tbfParms:
			w = v.words(tbfWords)
			rate, peak = max(rate, uint64(w[2])), max(peak, uint64(w[5]))
		case tbfRate64:
			rate = v.num()
		case tbfPeak64:
			peak = v.num()
		}
	}
	if w == nil || rate == 0 || w[7] == tbfLongTime {
		return t, false
	}
	return TBF{Rate: rate * 8, Peak: peak * 8, Limit: w[6], Burst: inTicks(rate, w[7]), MTU: inTicks(peak, w[8])}, true
}

// inTicks are the bytes that go at a rate in bytes/s in a time in the kernel's ticks
// of 64 ns.
func inTicks(rate uint64, ticks uint32) uint32 {
	return uint32(min(math.Round(float64(rate)*float64(ticks)*64/1e9), math.MaxUint32))
}

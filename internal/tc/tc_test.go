package tc

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// golden compares bytes of a little-endian machine, written with blanks.
func golden(t *testing.T, what string, got []byte, want string) {
	t.Helper()
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		t.Skip("the bytes are those of a little-endian machine")
	}
	if w := strings.Join(strings.Fields(want), ""); hex.EncodeToString(got) != w {
		t.Errorf("%s is\n%x\nwant\n%s", what, got, w)
	}
}

func TestEncode(t *testing.T) {
	golden(t, "cake", Cake{
		Rate: 9e6, Diffserv: Diffserv4, Flows: DualSrcHost, RTT: 600 * time.Millisecond, Overhead: -4, HasOverhead: true, MPU: 84,
		ATM: PTM, AckFilter: AckFilterOn, NAT: true, Wash: true, SplitGSO: true, Ingress: true, FwMark: 0xff00, Memory: 4 << 20,
	}.encode(), `0c000200 882a110000000000 08000300 01000000 08000400 02000000 08000500 05000000 08000600 fcffffff
		08000700 c0270900 08000800 30750000 08000900 00000000 08000a00 00004000 08000b00 01000000 08000d00 01000000
		08000e00 54000000 08000f00 01000000 08001000 01000000 08001100 01000000 08001200 00ff0000`)
	golden(t, "the plainest cake", Cake{}.encode(), `0c000200 0000000000000000 08000300 00000000 08000400 00000000 08000500 00000000 08000600 00000000 08000c00 00000000
		08000700 a0860100 08000800 88130000 08000900 00000000 08000a00 00000000 08000b00 00000000 08000d00 00000000
		08000e00 00000000 08000f00 00000000 08001000 00000000 08001100 00000000 08001200 00000000`)
	golden(t, "fq_codel", FqCodel{ECN: true, Target: 20 * time.Millisecond}.encode(false), `08000100 204e0000 08000200 00040000
		08000300 a0860100 08000400 01000000 08000500 00040000 08000600 2c010000 08000800 40000000 08000900 00000002`)
	golden(t, "fq_codel that stands", FqCodel{}.encode(true), `08000100 88130000 08000200 00040000
		08000300 a0860100 08000400 00000000 08000600 2c010000 08000800 40000000 08000900 00000002`)
	golden(t, "htb", encodeHTB(), `18000200 03000000 0a000000 20000000 00000000 00000000`)
	golden(t, "a class", newClass(bulkClass, topClass, 562500/8, 1125000, 2).encode(), `30000100 00010000 00000000 a8120100
		00010000 00000000 882a1100 e66c0500 ce560000 ea050000 00000000 02000000 0c000600 a812010000000000 0c000700 882a110000000000`)
	golden(t, "a filter", dscpFilters()[0].encode(), `08000100 3000517a 24000500 010001000000000000000000 00000000 00fc0000 00040000 00000000 00000000`)
	golden(t, "a redirection", filter{link: 7}.encode(), `24000500 010001000000000000000000 00000000 00000000 00000000 00000000 00000000
		38000700 34000100 0b000100 6d69727265640000 24000200 20000200 00000000 00000000 04000000 00000000 00000000 01000000 07000000`)
	golden(t, "a head", head{link: 2, handle: CakeHandle, parent: Root, info: 1}.encode(), `00000000 02000000 0000507a ffffffff 01000000`)
}

func drawCake(t *rapid.T) Cake {
	number := rapid.Uint32()
	return Cake{
		Rate: uint64(number.Draw(t, "rate")) * 64, Diffserv: Diffserv(rapid.Uint32Range(0, 4).Draw(t, "diffserv")),
		Flows: FlowMode(rapid.Uint32Range(0, 7).Draw(t, "flows")), RTT: time.Duration(rapid.Int64Range(-1, 1e10).Draw(t, "rtt")),
		Overhead: rapid.IntRange(-64, 256).Draw(t, "overhead"), HasOverhead: rapid.Bool().Draw(t, "counts from the network header on"),
		MPU: rapid.IntRange(0, 256).Draw(t, "mpu"), ATM: ATM(rapid.Uint32Range(0, 2).Draw(t, "atm")),
		AckFilter: AckFilter(rapid.Uint32Range(0, 2).Draw(t, "ack filter")), NAT: rapid.Bool().Draw(t, "nat"), Wash: rapid.Bool().Draw(t, "wash"),
		SplitGSO: rapid.Bool().Draw(t, "split-gso"), Ingress: rapid.Bool().Draw(t, "ingress"),
		FwMark: number.Draw(t, "mark"), Memory: number.Draw(t, "memory"),
	}
}

func drawFqCodel(t *rapid.T) FqCodel {
	number := rapid.Uint32()
	span := rapid.Int64Range(-1, 1e9)
	return FqCodel{
		Limit: number.Draw(t, "limit"), Flows: number.Draw(t, "flows"), Quantum: number.Draw(t, "quantum"), Memory: number.Draw(t, "memory"),
		Target: time.Duration(span.Draw(t, "target")), Interval: time.Duration(span.Draw(t, "interval")), ECN: rapid.Bool().Draw(t, "ecn"),
	}
}

// What is encoded is decoded to the same, in normal form, which is stable.
func TestRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCake(t)
		if got, ok := decodeCake(c.encode()); !ok || got != c.normal() || c.normal().normal() != c.normal() {
			t.Errorf("%+v became %+v, %t", c.normal(), got, ok)
		}
		f := drawFqCodel(t)
		n := f.normal()
		if n.normal() != n {
			t.Errorf("the normal form of %+v is %+v", n, n.normal())
		}
		if got, ok := decodeFqCodel(kernelCodel(f.encode(false))); !ok || got != n {
			t.Errorf("%+v became %+v, %t", n, got, ok)
		}
		h := HTB{Rate: uint64(rapid.Uint32Range(1, 1<<32-1).Draw(t, "rate")) * 64, Tins: rapid.Bool().Draw(t, "tins"), FIFO: rapid.Bool().Draw(t, "fifo"), Codel: f}
		if got, ok := decodeHTB(h.tree()); !ok || got != h.normal() || h.normal().normal() != h.normal() {
			t.Errorf("%+v became %+v, %t", h.normal(), got, ok)
		}
		for _, want := range h.tree().classes {
			m := message{head: head{handle: want.id, parent: want.parent}, kind: KindHTB, options: want.encode()}
			if got, ok := decodeClass(m); !ok || got != want {
				t.Errorf("%+v became %+v, %t", want, got, ok)
			}
		}
		for _, want := range append(dscpFilters(), filter{parent: ingressTest, prio: 9, protocol: protocolAll, handle: 1, link: 1 << 20}) {
			m := message{head: head{handle: want.handle | 0x800<<20, parent: want.parent, info: want.info()}, kind: "u32", options: want.encode()}
			if got, ok := decodeFilter(m); !ok || got != want {
				t.Errorf("%+v became %+v, %t", want, got, ok)
			}
		}
	})
}

const ingressTest = 0xfffffff2

// kernelCodel is what the kernel gives back of fq_codel's options.
func kernelCodel(options []byte) []byte {
	var a attrs
	for typ, v := range all(options) {
		n := v.u32()
		if typ == codelTarget || typ == codelInterval {
			n = uint32(uint64(n) * 1000 >> 10 << 10 / 1000)
		}
		a.u32(typ, n)
	}
	return a
}

// Options that a value cannot say make it no value of ours.
func TestNotOurs(t *testing.T) {
	for what, add := range map[string]func(*attrs){
		"another target": func(a *attrs) { a.u32(cakeTarget, 4711) },
		"autorate":       func(a *attrs) { a.u32(cakeAutorate, 1) },
	} {
		a := attrs(Cake{}.encode())
		add(&a)
		if c, ok := decodeCake(a); ok {
			t.Errorf("%s was taken for %+v", what, c)
		}
	}
	for what, add := range map[string]func(*attrs){
		"a mark":        func(a *attrs) { a.u32(codelMark, 1) },
		"another batch": func(a *attrs) { a.u32(codelBatch, 1) },
	} {
		a := attrs(FqCodel{}.encode(false))
		add(&a)
		if f, ok := decodeFqCodel(a); ok {
			t.Errorf("%s was taken for %+v", what, f)
		}
	}
	a := attrs(Cake{NAT: true}.encode())
	a.u32(4711, 1)
	if c, ok := decodeCake(a); !ok || c != (Cake{NAT: true}).normal() {
		t.Errorf("with an option nobody knows: %+v, %t", c, ok)
	}
	h := HTB{Rate: 9e6, Tins: true}.tree()
	h.classes[3].rate++
	if got, ok := decodeHTB(h); ok {
		t.Errorf("another class was taken for %+v", got)
	}
}

func TestWords(t *testing.T) {
	for want, got := range map[string]string{
		"diffserv4": Diffserv4.String(), "besteffort": BestEffort.String(), "dual-srchost": DualSrcHost.String(), "triple-isolate": TripleIsolate.String(),
		"ptm": PTM.String(), "ack-filter-aggressive": AckFilterAggressive.String(), "no-ack-filter": NoAckFilter.String(), "unknown": FlowMode(8).String(),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// A cake's statistics as a kernel sends them, in short.
func TestCakeStats(t *testing.T) {
	var bulk, best, tins, app, stats, m attrs
	bulk.u32(tinPackets, 3)
	bulk.u64(tinBytes, 1<<40)
	bulk.u32(tinMarked, 2)
	bulk.u64(tinThreshold, 1000)
	bulk.u32(tinPeakDelay, 1500)
	best.u32(tinPackets, 5)
	best.u32(tinMarked, 1)
	tins.add(1, bulk)
	tins.add(2, best)
	tins.add(3, nil)
	app.u32(cakeMemoryUsed, 77)
	app.add(cakeTins, tins)
	stats.add(statsBasic, append(binary.NativeEndian.AppendUint64(nil, 1<<41), 8, 0, 0, 0))
	stats.words(statsQueue, 1, 2, 3, 4, 5)
	stats.u64(statsPackets64, 1<<33)
	stats.add(statsApp, app)
	m.text(tcaKind, "cake")
	m.add(tcaOptions, Cake{}.encode())
	m.add(tcaStats2, stats)
	got, ok := decode(append(head{link: 2, handle: CakeHandle, parent: Root}.encode(), m...))
	q := got.qdisc()
	if want := (Stats{Bytes: 1 << 41, Packets: 1 << 33, Queued: 1, Backlog: 2, Drops: 3, Requeues: 4, Overlimits: 5, Marked: 3, Memory: 77}); !ok || q.Stats != want {
		t.Errorf("got %+v, want %+v", q.Stats, want)
	}
	if len(q.Tins) != 3 || q.Tins[0] != (Tin{Name: "Bulk", Packets: 3, Bytes: 1 << 40, Marked: 2, Threshold: 8000, PeakDelay: 1500 * time.Microsecond}) ||
		q.Tins[1].Name != "Best Effort" || q.Tins[2].Name != "Voice" {
		t.Errorf("tins %+v", q.Tins)
	}
	if q.Shaper != (Shaper{Kind: KindCake}).Normal() || q.Default {
		t.Errorf("got %+v", q)
	}
}

// FuzzDecode holds that no message makes a decoder panic, and that what it
// takes for a shaper of ours would be encoded to one that it takes for the same.
func FuzzDecode(f *testing.F) {
	seed := func(kind Kind, parts ...[]byte) {
		var m attrs
		m.text(tcaKind, string(kind))
		m.add(tcaOptions, bytes.Join(parts, nil))
		f.Add(append(head{link: 2, handle: HTBHandle, parent: Root, info: 1<<16 | 8}.encode(), m...))
	}
	seed(KindCake, Cake{Rate: 9e6}.encode())
	seed(KindFqCodel, FqCodel{}.encode(false))
	seed("u32", dscpFilters()[0].encode())
	seed("u32", filter{link: 7}.encode())
	seed(KindHTB, newClass(bulkClass, topClass, 1e6, 2e6, 1).encode())
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		m, ok := decode(b)
		if !ok {
			return
		}
		decodeFilter(m)
		decodeClass(m)
		for _, kind := range []Kind{KindCake, KindFqCodel, m.kind} {
			m.kind = kind
			if q := m.qdisc(); q.Shaper.Kind == KindCake {
				if again, ok := decodeCake(q.Shaper.Cake.encode()); !ok || again != q.Shaper.Cake.normal() {
					t.Errorf("%+v became %+v, %t", q.Shaper.Cake, again, ok)
				}
			}
		}
		if c, ok := decodeFqCodel(m.options); ok {
			if again, ok := decodeFqCodel(kernelCodel(c.encode(false))); !ok || again != c.normal() {
				t.Errorf("%+v became %+v, %t", c, again, ok)
			}
		}
	})
}

package tc

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
)

// allOptions differs from the default in every option.
var allOptions = Cake{
	Rate: 9e6, Diffserv: Diffserv4, Flows: DualSrcHost, RTT: 600 * time.Millisecond, Overhead: -4, HasOverhead: true, MPU: 84, ATM: PTM,
	AckFilter: AckFilterOn, NAT: true, Wash: true, SplitGSO: true, Ingress: true, FwMark: 0xff00, Memory: 4 << 20,
}

func cake(c Cake) Shaper { return Shaper{Kind: KindCake, Cake: c} }

// TestCakeOptions sets each option alone, each time after all of them were set:
// nothing of those is left.
func TestCakeOptions(t *testing.T) {
	needLab(t)
	inNamespace(t)
	a, _ := pair(t)
	cs := []Cake{
		{}, allOptions, {Rate: 12345678}, {Rate: 100e9}, {RTT: 30 * time.Millisecond}, {RTT: time.Second}, {Overhead: 44, HasOverhead: true}, {HasOverhead: true},
		{Overhead: -64, HasOverhead: true}, {MPU: 64}, {ATM: ATMCells}, {ATM: PTM}, {AckFilter: AckFilterOn}, {AckFilter: AckFilterAggressive},
		{NAT: true}, {Wash: true}, {SplitGSO: true}, {Ingress: true}, {FwMark: 0xf0}, {FwMark: 1 << 31}, {Memory: 1 << 20},
	}
	for d := range Precedence + 1 {
		cs = append(cs, Cake{Diffserv: d})
	}
	for f := range TripleIsolate + 1 {
		cs = append(cs, Cake{Flows: f}, Cake{Flows: f, NAT: true})
	}
	for _, c := range cs {
		for _, s := range []Shaper{cake(allOptions), cake(c)} {
			ok(t, SetRoot(a, s))
			if q := root(t, a); q.Shaper != s.Normal() || q.Handle != CakeHandle {
				t.Errorf("set %+v, there is %+v", s.Cake, q)
			}
		}
	}
	ok(t, SetRoot(a, cake(allOptions)))
	seen := tc(t, "qdisc", "show", "dev", "a", "root")
	for _, want := range []string{
		"qdisc cake 7a50:", "bandwidth 9Mbit", "diffserv4", "dual-srchost", " nat ", "wash", "ingress", "ack-filter", "split-gso", "rtt 600ms",
		"ptm", "overhead -4", "mpu 84", "memlimit 4Mb", "fwmark 0xff00",
	} {
		if !strings.Contains(seen, want) {
			t.Errorf("no %q in %s", want, seen)
		}
	}
}

// TestCakeAgain holds that the same again, and a change of options, leave the
// counters and the handle.
func TestCakeAgain(t *testing.T) {
	needLab(t)
	inNamespace(t)
	a, _ := pair(t)
	codel := Shaper{Kind: KindHTB, HTB: HTB{Rate: 9e6, Tins: true}}.Normal()
	for _, shapers := range [][2]Shaper{
		{cake(allOptions).Normal(), cake(allOptions).Normal()},
		{cake(allOptions).Normal(), cake(Cake{Rate: 5e6}).Normal()},
		{codel, codel},
	} {
		var last Stats
		for i := range 100 {
			s := shapers[i%2]
			ok(t, SetRoot(a, s))
			if i%20 == 0 {
				transmit(t, a, frame(false, 0, 100), frame(true, 46, 100))
			}
			q := root(t, a)
			if q.Shaper != s || q.Stats.Packets < last.Packets || q.Stats.Bytes < last.Bytes {
				t.Fatalf("%d: %+v after %+v", i, q, last)
			}
			last = q.Stats
		}
		if last.Packets < 10 {
			t.Errorf("%d packets of 10 counted", last.Packets)
		}
	}
}

// TestKinds goes from each kind to each other, each time with new counters.
func TestKinds(t *testing.T) {
	needLab(t)
	inNamespace(t)
	a, _ := pair(t)
	const sent, few = 100, 50 // the kernel sends some itself
	for _, s := range []Shaper{
		cake(Cake{Rate: 9e6}), {Kind: KindHTB, HTB: HTB{Rate: 9e6, Tins: true}}, cake(Cake{Rate: 9e6}), fifo(9e6, false), cake(allOptions),
	} {
		ok(t, SetRoot(a, s))
		q := root(t, a)
		if q.Shaper != s.Normal() || q.Stats.Packets > few {
			t.Errorf("set %+v, there is %+v", s, q)
		}
		transmit(t, a, slices.Repeat([][]byte{frame(false, 0, 100)}, sent)...)
		if q := root(t, a); q.Stats.Packets+uint64(q.Stats.Queued) < sent {
			t.Errorf("of %d packets counted or queued: %+v", sent, q)
		}
	}
	ok(t, DeleteRoot(a))
	ok(t, DeleteRoot(a))
}

// TestFqCodel changes what is in the classes: options in place, the number of
// flows by making it anew, to the kernel's own queue and back.
func TestFqCodel(t *testing.T) {
	needLab(t)
	inNamespace(t)
	a, _ := pair(t)
	for _, c := range []HTB{
		{}, {Codel: FqCodel{Target: 20 * time.Millisecond}}, {Codel: FqCodel{Target: 7 * time.Millisecond, Interval: 300 * time.Millisecond, ECN: true}},
		{Codel: FqCodel{Flows: 64}}, {Codel: FqCodel{Flows: 64, Limit: 99, Quantum: 1514, Memory: 1 << 20}}, {FIFO: true}, {},
	} {
		for _, tins := range []bool{false, true, false} {
			c.Rate, c.Tins = 9e6, tins
			s := Shaper{Kind: KindHTB, HTB: c}
			ok(t, SetRoot(a, s))
			if q := root(t, a); q.Shaper != s.Normal() {
				t.Errorf("set %+v, there is %+v", s.Normal().HTB, q)
			}
		}
		transmit(t, a, frame(false, 0, 100))
	}
	if n := packets(root(t, a))["Best Effort"]; n < 7 {
		t.Errorf("%d of 7 packets counted: the class was not the same all the time", n)
	}
}

// TestCakeIngress holds that a cake can stand at an ifb.
func TestCakeIngress(t *testing.T) {
	needLab(t)
	inNamespace(t)
	a, b := pair(t)
	s := cake(Cake{Rate: 50e6, Diffserv: BestEffort, Flows: DualDstHost, Ingress: true, Wash: true, NAT: true})
	ok(t, SetIngress(a, "in0", s))
	transmit(t, b, frame(false, 0, 100), frame(true, 0, 100))
	q := root(t, index(t, "in0"))
	if q.Shaper != s.Normal() || q.Stats.Packets < 2 {
		t.Errorf("there is %+v", q)
	}
	ok(t, DeleteIngress(a, "in0"))
}

// TestRestore restores roots of others after one of ours.
func TestRestore(t *testing.T) {
	needLab(t)
	inNamespace(t)
	a, _ := pair(t)
	moving := regexp.MustCompile(`bandwidth \w+ autorate-ingress`) // by itself, with each packet
	show := func() string { return moving.ReplaceAllString(tc(t, "qdisc", "show", "dev", "a"), "autorate-ingress") }
	for _, args := range []string{
		"cake bandwidth 7mbit diffserv3 nat wash rtt 33ms overhead 44 mpu 64", "cake bandwidth 7mbit autorate-ingress raw",
		"fq_codel limit 300 flows 32 target 7ms interval 70ms noecn", "tbf rate 5mbit burst 20kb limit 100kb",
	} {
		tc(t, strings.Fields("qdisc replace dev a root handle 11: "+args)...)
		is, before := root(t, a), show()
		ok(t, SetRoot(a, cake(Cake{Rate: 9e6})))
		ok(t, RestoreRoot(a, is))
		if after := show(); after != before {
			t.Errorf("there was\n%sis\n%s", before, after)
		}
		ok(t, DeleteRoot(a))
	}
	ok(t, netlink.LinkDel(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Index: a}}))
}

// TestTins holds which tin takes what, as measured once by sending each.
func TestTins(t *testing.T) {
	needLab(t)
	inNamespace(t)
	a, _ := pair(t)
	for _, mode := range []struct {
		diffserv Diffserv
		tins     map[string][]byte
	}{
		{Diffserv4, map[string][]byte{
			"Bulk": {1, 8}, "Best Effort": {0, 2, 10}, "Video": {16, 18, 24, 26, 34, 38, 4}, "Voice": {32, 40, 44, 46, 48, 56},
		}},
		{Diffserv3, map[string][]byte{
			"Bulk": {1, 8}, "Best Effort": {0, 2, 10, 16, 18, 24, 26, 34, 38, 32, 40}, "Voice": {4, 44, 46, 48, 56},
		}},
		{BestEffort, map[string][]byte{"Best Effort": {0, 1, 46}}},
	} {
		ok(t, SetRoot(a, cake(Cake{Rate: 1e9, Diffserv: mode.diffserv})))
		for want, dscps := range mode.tins {
			for _, dscp := range dscps {
				for _, v6 := range []bool{false, true} {
					before := packets(root(t, a))
					transmit(t, a, frame(v6, dscp, 100), frame(v6, dscp, 100), frame(v6, dscp, 100))
					wentTo(t, root(t, a), before, want)
					if t.Failed() {
						t.Fatalf("%v, DSCP %d, IPv6 %t", mode.diffserv, dscp, v6)
					}
				}
			}
		}
	}
}

// TestTinFields holds the numbers of a tin that can be foreseen.
func TestTinFields(t *testing.T) {
	needLab(t)
	inNamespace(t)
	a, _ := pair(t)
	ok(t, SetRoot(a, cake(Cake{Rate: 16e6, Diffserv: Diffserv4, RTT: 200 * time.Millisecond})))
	transmit(t, a, slices.Repeat([][]byte{frame(false, 1, 200)}, 5)...)
	q := root(t, a)
	if len(q.Tins) != 4 {
		t.Fatalf("tins %+v", q.Tins)
	}
	for i, want := range []struct {
		name string
		part uint64
	}{{"Bulk", 16}, {"Best Effort", 1}, {"Video", 2}, {"Voice", 4}} {
		tin := q.Tins[i]
		if tin.Name != want.name || tin.Threshold != 16e6/want.part || tin.Target < 10*time.Millisecond || tin.Interval < 200*time.Millisecond || tin.Quantum == 0 {
			t.Errorf("got %+v, want %+v", tin, want)
		}
	}
	b := q.Tins[0]
	if b.Packets+uint64(q.Stats.Queued) < 5 || b.Bytes != 214*b.Packets || b.MaxPacket != 214 {
		t.Errorf("five packets are %+v", b)
	}
}

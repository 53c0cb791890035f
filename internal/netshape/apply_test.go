package netshape

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"trafficup/internal/dscpmark"
	"trafficup/internal/tc"
)

// start is a state from which to apply.
type start struct {
	root tc.Qdisc // no kind: the default
	ours *Desired // applied before
	ifb  bool     // left by a crash
}

func (s start) prepare(t testing.TB, b box) {
	eth := b.k.index("eth1")
	if s.root.Kind != "" {
		b.k.roots[eth] = s.root
	}
	if s.ours != nil {
		o := must(b.Observe("eth1", "eth2"))
		if _, err := b.Apply(t.Context(), Make(*s.ours, o, true), 0); err != nil {
			t.Fatal(err)
		}
	}
	if s.ifb && b.k.index("ifb4eth1") == 0 {
		b.k.set(b.k.addMade("ifb4eth1"), cakeAt("9mbit").Root)
	}
}

func drawInterface(t *rapid.T, name string) Interface {
	s := Spec{Name: name, Kind: rapid.SampledFrom([]string{"cake", "fq_codel", "none"}).Draw(t, "kind")}
	if s.Kind != "none" {
		s.Up = rapid.SampledFrom([]string{"9mbit", "8mbit", "900kbit"}).Draw(t, "up")
		s.Down = rapid.SampledFrom([]string{"", "90mbit", "50mbit"}).Draw(t, "down")
		s.Profile = rapid.SampledFrom([]string{"", "leo", "geo"}).Draw(t, "profile")
		s.Diffserv = rapid.SampledFrom([]string{"", "besteffort"}).Draw(t, "diffserv")
	}
	return must(Parse(s))
}

func drawDesired(t *rapid.T) Desired {
	d := Desired{Interfaces: []Interface{drawInterface(t, "eth1")}}
	if rapid.Bool().Draw(t, "two") {
		d.Interfaces = append(d.Interfaces, drawInterface(t, "eth2"))
	}
	if rapid.Bool().Draw(t, "classes") {
		d.Classes = bulk
	}
	return d
}

func drawStart(t *rapid.T) (s start) {
	if rapid.Bool().Draw(t, "applied before") {
		d := drawDesired(t)
		s.ours = &d
	}
	if rapid.Bool().Draw(t, "foreign before") {
		s.root = tbf
	}
	s.ifb = rapid.Bool().Draw(t, "stray ifb")
	return s
}

// From any start: applying twice is applying once, and the second time nothing is
// asked of the kernel; clear brings back what was there first.
func TestApplyTwice(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := newBox(t, "eth1", "eth2")
		s, d := drawStart(rt), drawDesired(rt)
		s.prepare(t, b)
		if _, err := b.Apply(t.Context(), Make(d, must(b.Observe("eth1", "eth2")), true), 0); err != nil {
			rt.Fatal(err)
		}
		once, changes := b.picture(), b.k.changes
		p := b.plan(t, d)
		if _, err := b.Apply(t.Context(), p, 0); err != nil || !p.Equal || b.k.changes != changes || b.picture() != once {
			rt.Fatalf("the second time: %v, %d changes\n%s", err, b.k.changes-changes, text(t, p))
		}
		b.clear(t, "eth1", "eth2")
		first := newBox(t, "eth1", "eth2")
		start{root: s.root}.prepare(t, first)
		if b.picture() != first.picture() {
			rt.Fatalf("cleared it is\n%s\nand it was\n%s", b.picture(), first.picture())
		}
	})
}

// Whichever step fails, cleanly or half done, everything is as it was, state files
// included, and the error names the step.
func TestUndo(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := newBox(t, "eth1", "eth2")
		s, d := drawStart(rt), drawDesired(rt)
		s.ifb = false // it is ours to mend; whether it was led somewhere is not remembered
		s.prepare(t, b)
		p := Make(d, must(b.Observe("eth1", "eth2")), true)
		if len(p.Steps) == 0 {
			return
		}
		before, files := b.picture(), b.snapshot()
		n := rapid.IntRange(1, len(p.Steps)).Draw(rt, "fails at")
		b.k.failAt, b.k.half = b.k.changes+n, rapid.Bool().Draw(rt, "half done")
		_, err := b.Apply(t.Context(), p, 0)
		if !errors.Is(err, errFake) || !strings.Contains(err.Error(), p.Steps[n-1].String()) || !strings.Contains(err.Error(), "all was undone") {
			rt.Fatal(err)
		}
		if b.picture() != before {
			rt.Fatalf("undone it is\n%s\nand it was\n%s", b.picture(), before)
		}
		if now := b.snapshot(); now != files {
			rt.Fatalf("state files are\n%s\nand were\n%s", now, files)
		}
	})
}

// Options that the kernel lets fall are named, and the old state is back.
func TestDroppedOptions(t *testing.T) {
	for name, drop := range map[string]func(*tc.Shaper){
		"rtt":         func(s *tc.Shaper) { s.Cake.RTT = 100 * time.Millisecond },
		"nat":         func(s *tc.Shaper) { s.Cake.NAT = false },
		"ack-filter":  func(s *tc.Shaper) { s.Cake.AckFilter = tc.NoAckFilter },
		"diffserv":    func(s *tc.Shaper) { s.Cake.Diffserv = tc.Diffserv3 },
		"overhead":    func(s *tc.Shaper) { s.Cake.Overhead = 0 },
		"mpu":         func(s *tc.Shaper) { s.Cake.MPU = 0 },
		"split-gso":   func(s *tc.Shaper) { s.Cake.SplitGSO = false },
		"rate 0bit, ": func(s *tc.Shaper) { s.Cake.Rate = 0 },
	} {
		b := newBox(t, "eth1")
		b.apply(t, Desired{Interfaces: []Interface{must(Parse(Spec{Name: "eth1", Kind: "fq_codel", Up: "9mbit"}))}})
		before := b.picture()
		want := must(Parse(Spec{Name: "eth1", Kind: "cake", Up: "3mbit", Profile: "geo", AckFilter: "on"}))
		b.k.drop = func(s *tc.Shaper) {
			if s.Kind == tc.KindCake {
				drop(s)
			}
		}
		_, err := b.Apply(t.Context(), b.plan(t, Desired{Interfaces: []Interface{want}}), 0)
		if !errors.Is(err, ErrNotTaken) || !strings.Contains(err.Error(), "eth1 root: "+name) {
			t.Errorf("%s: %v", name, err)
		}
		if b.picture() != before {
			t.Errorf("%s: now\n%s", name, b.picture())
		}
	}
}

// An interface that goes in mid-apply takes its queues with it: that is an error
// of the apply and none of the undo.
func TestLinkLost(t *testing.T) {
	for n := 1; n <= 3; n++ {
		b := newBox(t, "eth0", "eth1")
		b.k.loseAt = n
		d := Desired{Interfaces: []Interface{must(Parse(Spec{Name: "eth1", Kind: "cake", Up: "9mbit", Down: "90mbit"}))}, Classes: bulk}
		_, err := b.Apply(t.Context(), b.plan(t, d), 0)
		if n < 3 && (!errors.Is(err, ErrNoLink) || !strings.Contains(err.Error(), "all was undone")) {
			t.Errorf("lost at %d: %v", n, err)
		}
		if n < 3 && b.f.has != nil {
			t.Errorf("lost at %d: marks stay", n)
		}
	}
}

// An undo that fails is told of, too, and can be caught up on with clear.
func TestUndoFails(t *testing.T) {
	b := newBox(t, "eth1")
	before := b.picture()
	d := Desired{Interfaces: []Interface{cakeAt("9mbit")}, Classes: bulk}
	b.k.before = func(n int) {
		if n >= 2 {
			b.k.failAt = n // the marks, and all after them
		}
	}
	_, err := b.Apply(t.Context(), b.plan(t, d), 0)
	if !errors.Is(err, errFake) || !strings.Contains(err.Error(), "could not all be undone: undo eth1 root") {
		t.Fatal(err)
	}
	b.k.before, b.k.failAt = nil, 0
	b.clear(t, "eth1")
	if b.picture() != before {
		t.Error(b.picture())
	}
}

// A plan is done as it was shown or not at all.
func TestChangedSincePlan(t *testing.T) {
	b := newBox(t, "eth1")
	p := b.plan(t, Desired{Interfaces: []Interface{cakeAt("9mbit")}})
	b.apply(t, Desired{Interfaces: []Interface{cakeAt("8mbit")}})
	if _, err := b.Apply(t.Context(), p, 0); !errors.Is(err, ErrChanged) {
		t.Error(err)
	}
}

func TestCanceled(t *testing.T) {
	b := newBox(t, "eth1")
	before := b.picture()
	ctx, cancel := context.WithCancel(t.Context())
	b.k.before = func(int) { cancel() }
	_, err := b.Apply(ctx, b.plan(t, Desired{Interfaces: []Interface{cakeAt("9mbit")}, Classes: bulk}), 0)
	if !errors.Is(err, context.Canceled) || b.picture() != before {
		t.Error(err, b.picture())
	}
}

// A hundred times the same is once.
func TestApplyHundred(t *testing.T) {
	b := newBox(t, "eth1")
	for range 100 {
		b.apply(t, Desired{Interfaces: []Interface{cakeAt("9mbit")}, Classes: bulk})
	}
	if b.k.changes != 2 {
		t.Error(b.k.changes)
	}
}

// What another boot left in the directory is not believed.
func TestReboot(t *testing.T) {
	b := newBox(t, "eth1")
	b.k.roots[b.k.index("eth1")] = tbf
	p := Make(Desired{Interfaces: []Interface{cakeAt("9mbit")}, Classes: bulk}, must(b.Observe("eth1")), true)
	if _, err := b.Apply(t.Context(), p, 0); err != nil {
		t.Fatal(err)
	}
	b.Boot, b.f.has = "boot2", nil
	b.k.roots = map[int]tc.Qdisc{}
	if got := text(t, b.plan(t, Desired{Interfaces: []Interface{cakeAt("9mbit")}, Classes: bulk})); !strings.Contains(got, "2 to add") {
		t.Error(got)
	}
	b.apply(t, Desired{Interfaces: []Interface{cakeAt("9mbit")}, Classes: bulk})
	b.clear(t, "eth1")
	if got := b.picture(); strings.Contains(got, "tbf") {
		t.Error("the queue of another boot is back:", got)
	}
}

func TestDifferencesAreNamed(t *testing.T) {
	a := must(Parse(Spec{Name: "eth1", Kind: "cake", Up: "9mbit"})).Root
	b := must(Parse(Spec{Name: "eth1", Kind: "cake", Up: "8mbit", RTT: 30 * time.Millisecond})).Root
	if got := fmt.Sprint(differences(b, a)); got != "[rate 9mbit, want 8mbit rtt 100ms, want 30ms]" {
		t.Error(got)
	}
}

// What was changed by hand inside of ours is made good, and undone to what we had
// set: what the hand did nobody can tell.
func TestDamaged(t *testing.T) {
	for _, fails := range []bool{false, true} {
		b := newBox(t, "eth1")
		b.apply(t, Desired{Interfaces: []Interface{must(Parse(Spec{Name: "eth1", Kind: "fq_codel", Up: "9mbit", Down: "90mbit"}))}})
		whole := b.picture()
		eth := b.k.index("eth1")
		b.k.roots[eth] = tc.Qdisc{Kind: "htb", Handle: tc.HTBHandle} // a class was changed
		b.k.led = map[int]int{}                                      // and the filter deleted
		p := b.plan(t, Desired{Interfaces: []Interface{must(Parse(Spec{Name: "eth1", Kind: "fq_codel", Up: "8mbit", Down: "90mbit"}))}})
		if got := text(t, p); !strings.Contains(got, "that are not ours") || !strings.Contains(got, "nothing is led to its ifb") {
			t.Error(got)
		}
		if fails {
			b.k.failAt = b.k.changes + 2
		}
		_, err := b.Apply(t.Context(), p, 0)
		if (err != nil) != fails {
			t.Error(err)
		}
		if fails {
			b.k.failAt = 0
			if rate := b.k.roots[eth].Shaper.HTB.Rate; rate != 9e6 {
				t.Errorf("%d\n%s", rate, b.picture())
			}
		}
		b.apply(t, Desired{Interfaces: []Interface{must(Parse(Spec{Name: "eth1", Kind: "fq_codel", Up: "9mbit", Down: "90mbit"}))}})
		if b.picture() != whole {
			t.Error(b.picture())
		}
	}
}

// A kernel without nftables is one to shape on, and none to mark on.
func TestNoNftables(t *testing.T) {
	b := newBox(t, "eth1")
	b.f.readErr = dscpmark.ErrUnsupported
	p := b.plan(t, Desired{Interfaces: []Interface{cakeAt("9mbit")}, Classes: bulk})
	if len(p.Refusals) != 1 || p.Refusals[0].Code != CodeNoKernel || !strings.Contains(p.Refusals[0].Hint, "leave out the classes") {
		t.Errorf("%+v", p.Refusals)
	}
	b.apply(t, Desired{Interfaces: []Interface{cakeAt("9mbit")}})
	b.clear(t, "eth1")
}

// A kernel that says yes and does nothing is found out.
func TestNothingTaken(t *testing.T) {
	b := newBox(t, "eth1")
	b.k.drop = func(s *tc.Shaper) { *s = tc.Shaper{Kind: "noqueue"} }
	_, err := b.Apply(t.Context(), b.plan(t, Desired{Interfaces: []Interface{cakeAt("9mbit")}}), 0)
	if !errors.Is(err, ErrNotTaken) || !strings.Contains(err.Error(), "noqueue") {
		t.Error(err)
	}
}

// What was done last is undone first.
func TestUndoOrder(t *testing.T) {
	b := newBox(t, "eth1")
	d := Desired{Interfaces: []Interface{must(Parse(Spec{Name: "eth1", Kind: "cake", Up: "9mbit", Down: "90mbit"}))}, Classes: bulk}
	b.k.failAt = 3 // the marks
	last := ""
	b.k.before = func(n int) {
		if n == 5 {
			last = b.k.picture()
		}
	}
	if _, err := b.Apply(t.Context(), b.plan(t, d), 0); !errors.Is(err, errFake) {
		t.Fatal(err)
	}
	if !strings.Contains(last, "eth1: cake") || strings.Contains(last, "ifb4eth1") {
		t.Errorf("before the last change it is\n%s", last)
	}
}

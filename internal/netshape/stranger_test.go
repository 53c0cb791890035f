package netshape

import (
	"fmt"
	"strings"
	"testing"

	"trafficup/internal/tc"
)

// stranger is an ifb of our name as sqm-scripts makes it: its own queue, its own
// filter. No queue: the kernel's.
func (b box) stranger(queue tc.Qdisc) {
	i := b.k.add("ifb4eth1")
	if queue.Kind != "" {
		b.k.roots[i] = queue
	}
	b.k.theirs[b.k.index("eth1")] = i
}

var (
	upOnly = Desired{Interfaces: []Interface{cakeAt("9mbit")}}
	both   = Desired{Interfaces: []Interface{must(Parse(Spec{Name: "eth1", Kind: "cake", Up: "9mbit", Down: "90mbit"}))}}
)

// An ifb of our name that others made is not ours: it is left alone, and to be
// replaced only by force, after which everything that comes in still goes somewhere.
func TestStrangersIfb(t *testing.T) {
	for _, queue := range []tc.Qdisc{tbf, {}, {Kind: tc.KindCake, Handle: 0x8001 << 16, Raw: []byte{7}}} {
		b := newBox(t, "eth1")
		b.stranger(queue)
		before := b.picture()
		if b.apply(t, upOnly); !strings.Contains(b.picture(), "ifb4eth1") || b.k.theirs[b.k.index("eth1")] != b.k.index("ifb4eth1") {
			t.Errorf("%s: apply took the ifb: %s", queue.Kind, b.picture())
		}
		p := b.plan(t, both)
		if len(p.Refusals) != 1 || p.Refusals[0].Code != CodeForeignQdisc || !strings.Contains(p.Refusals[0].Text, "ifb4eth1") {
			t.Errorf("%s: %s", queue.Kind, text(t, p))
		}
		if b.clear(t, "eth1"); b.picture() != before {
			t.Errorf("%s: cleared it is\n%s\nand it was\n%s", queue.Kind, b.picture(), before)
		}
		forced := Make(both, must(b.Observe("eth1")), true)
		if _, err := b.Apply(t.Context(), forced, 0); err != nil {
			t.Fatal(err)
		}
		if q := b.k.roots[b.k.index("ifb4eth1")]; q.Shaper != both.Interfaces[0].Ingress || !b.plan(t, both).Equal {
			t.Errorf("%s: by force: %+v", queue.Kind, q)
		}
		if b.clear(t, "eth1"); b.k.index("ifb4eth1") == 0 {
			t.Errorf("%s: clear took away what others' filters lead to", queue.Kind)
		}
	}
}

// Whichever step of a forced apply fails, cleanly or half done, the others' ifb is
// as it was.
func TestStrangersIfbUndone(t *testing.T) {
	for n := range 4 {
		b := newBox(t, "eth1")
		b.stranger(tbf)
		before := b.picture()
		b.k.failAt, b.k.half = 1+n/2, n%2 == 1
		if _, err := b.Apply(t.Context(), Make(both, must(b.Observe("eth1")), true), 0); err == nil {
			t.Error("nothing failed")
		}
		if now := b.picture(); now != before {
			t.Error(fmt.Sprint(n, ":"), now, before)
		}
	}
}

// An ifb that others made is used while it is empty and nobody uses it, and left.
// One that what comes in by another interface is led to is somebody's.
func TestStrangersEmptyIfb(t *testing.T) {
	b := newBox(t, "eth1", "eth2")
	b.k.add("ifb4eth1")
	before := b.picture()
	b.apply(t, both)
	if b.clear(t, "eth1"); b.picture() != before {
		t.Errorf("cleared it is\n%s\nand it was\n%s", b.picture(), before)
	}
	b.k.theirs[b.k.index("eth2")] = b.k.index("ifb4eth1")
	p := b.plan(t, both)
	if len(p.Refusals) != 1 || p.Refusals[0].Code != CodeForeignQdisc || !strings.Contains(p.Refusals[0].Text, "to which filters of eth2 lead") {
		t.Error(text(t, p))
	}
	if _, err := b.Apply(t.Context(), Make(both, must(b.Observe("eth1")), true), 0); err != nil {
		t.Fatal(err)
	}
	if b.clear(t, "eth1"); b.picture() != before {
		t.Errorf("after force it is\n%s\nand it was\n%s", b.picture(), before)
	}
}

// What no queue can be put behind is told before any change, force or not.
func TestNoWayIn(t *testing.T) {
	for want, prepare := range map[string]func(b box){
		"is a veth and no ifb": func(b box) { b.k.add("ifb4eth1"); b.k.links[1].Kind = "veth" },
		"the shared block 22":  func(b box) { b.k.block[b.k.index("eth1")] = 22 },
	} {
		b := newBox(t, "eth1")
		prepare(b)
		if p := Make(both, must(b.Observe("eth1")), true); len(p.Refusals) != 1 || !strings.Contains(p.Refusals[0].Text, want) {
			t.Errorf("%s: %+v", want, p.Refusals)
		}
		b.apply(t, upOnly)
		b.clear(t, "eth1")
	}
}

// Our filter that leads nowhere, its ifb being gone, drops all that comes in: it is
// repaired, and cleared.
func TestIfbGone(t *testing.T) {
	b := newBox(t, "eth1")
	before := b.picture()
	b.apply(t, both)
	stands := b.picture()
	b.k.remove("ifb4eth1")
	if b.apply(t, both); b.picture() != stands {
		t.Error(b.picture())
	}
	b.k.remove("ifb4eth1")
	b.clear(t, "eth1")
	if _, led := b.k.led[b.k.index("eth1")]; led || b.picture() != before {
		t.Error(led, b.picture())
	}
}

// The state file says that an ifb is ours, whatever became of its queue.
func TestOurIfb(t *testing.T) {
	b := newBox(t, "eth1")
	b.apply(t, upOnly)
	b.apply(t, both)
	b.k.roots[b.k.index("ifb4eth1")] = tbf
	if p := b.plan(t, both); len(p.Refusals) > 0 || len(p.Steps) != 1 {
		t.Error(text(t, p))
	}
	if b.clear(t, "eth1"); b.k.index("ifb4eth1") != 0 {
		t.Error("it is left")
	}
}

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

// The state file says that an ifb is ours, whatever became of its queue; and an
// empty one that nobody uses is nobody's.
func TestOurIfb(t *testing.T) {
	b := newBox(t, "eth1")
	b.k.add("ifb4eth1")
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

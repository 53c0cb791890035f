package netshape

import (
	"strings"
	"testing"
	"time"
)

// renamed is eth1 with something of ours over a tbf, called wan9 now.
func renamed(t *testing.T, within time.Duration) (b box, before string, done Applied) {
	b = newBox(t, "eth1")
	b.k.roots[b.k.index("eth1")] = tbf
	before = strings.ReplaceAll(b.picture(), "eth1", "wan9")
	done, err := b.Apply(t.Context(), Make(Desired{Interfaces: both.Interfaces, Classes: bulk}, must(b.Observe("eth1")), true), within)
	if err != nil {
		t.Fatal(err)
	}
	b.k.rename("eth1", "wan9")
	return b, before, done
}

// A rollback goes by the device and not by its name, and so when another has that now.
func TestRollbackRenamed(t *testing.T) {
	for _, taken := range []bool{false, true} {
		b, before, done := renamed(t, time.Minute)
		if taken {
			b.k.add("eth1")
		}
		if did, err := b.Rollback(t.Context(), done.ID); !did || err != nil {
			t.Error(did, err)
		}
		if taken {
			b.k.remove("eth1")
		}
		if b.picture() != before {
			t.Errorf("%v: now\n%s\nand it was\n%s", taken, b.picture(), before)
		}
	}
}

// Clear finds it by either name, or by both, which is once.
func TestClearRenamed(t *testing.T) {
	for _, names := range [][]string{{"eth1"}, {"wan9"}, {"eth1", "wan9"}, {"wan9", "eth1"}} {
		b, before, _ := renamed(t, 0)
		p := MakeClear(names, must(b.Observe(names...)))
		if got := text(t, p); len(p.Steps) != 3 || !strings.Contains(got, "wan9: it was set up when its name was eth1") {
			t.Error(names, got)
		}
		if _, err := b.Apply(t.Context(), p, 0); err != nil {
			t.Error(names, err)
		}
		if b.picture() != before {
			t.Errorf("%v: now\n%s\nand it was\n%s", names, b.picture(), before)
		}
		if left := must(b.Shaped()); len(left) != 0 {
			t.Error(names, left)
		}
	}
}

// Nothing is set up over it under another name, and status says what is the matter.
// Another interface that got its name is not taken for it.
func TestApplyRenamed(t *testing.T) {
	b, _, _ := renamed(t, 0)
	other := both.Interfaces[0]
	other.Name = "wan9"
	refused := func(i Interface, want string) {
		t.Helper()
		p := Make(Desired{Interfaces: []Interface{i}}, must(b.Observe(i.Name)), true)
		if len(p.Refusals) != 1 || p.Refusals[0].Code != CodeRenamed || !strings.Contains(p.Refusals[0].Text, want) || !strings.Contains(p.Refusals[0].Hint, "clear --iface wan9") {
			t.Error(text(t, p))
		}
	}
	refused(both.Interfaces[0], "it is called wan9 now")
	refused(other, "was set up when its name was eth1")
	s := must(b.Status("eth1", "wan9"))
	for _, i := range s.Interfaces {
		if i.Wanted == nil || len(i.Drift) != 1 || !strings.Contains(i.Drift[0], "was set up as eth1 and is called wan9 now") {
			t.Errorf("%+v", i)
		}
	}
	b.k.add("eth1")
	refused(both.Interfaces[0], "is called wan9 now")
	if s := must(b.Status("eth1")); s.Interfaces[0].Wanted != nil || s.Interfaces[0].Ours {
		t.Errorf("%+v", s)
	}
	stands := b.picture()
	if b.clear(t, "eth1"); strings.Count(b.picture(), "cake") != strings.Count(stands, "cake") || len(must(b.Shaped())) != 1 {
		t.Error("the other was cleared", b.picture(), must(b.Shaped()))
	}
	b.clear(t, "wan9")
	b.apply(t, both)
}

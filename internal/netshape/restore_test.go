package netshape

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"trafficup/internal/tc"
)

// overTBF is a box with an apply over a queue that does not come back.
func overTBF(t *testing.T, within time.Duration) (box, Applied) {
	b := newBox(t, "eth1")
	b.guard(t)
	b.k.roots[b.k.index("eth1")] = tbf
	done, err := b.Apply(t.Context(), Make(both, must(b.Observe("eth1")), true), within)
	if err != nil {
		t.Fatal(err)
	}
	b.k.refused = tbf.Kind
	return b, done
}

// nothing is told when the rate is gone, and nothing waits and nothing is remembered.
func (b box) nothing(t *testing.T) {
	t.Helper()
	if s := must(b.Status("eth1")); s.Pending != nil || s.Interfaces[0].Wanted != nil || s.Interfaces[0].Ours {
		t.Errorf("%+v", s)
	}
	if strings.Contains(b.picture(), "cake") || strings.Contains(b.picture(), "ifb4") {
		t.Error(b.picture())
	}
}

// Where what stood before cannot stand again a rollback leaves the kernel's
// default, says so and is at its end.
func TestRollbackCannotRestore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, done := overTBF(t, time.Minute)
		did, err := b.Rollback(t.Context(), done.ID)
		if !did || !errors.Is(err, ErrNotRestored) || !strings.Contains(err.Error(), "undo eth1 root: tbf 8001: could not be put back (the kernel says no): the kernel's default stands there now") {
			t.Error(did, err)
		}
		b.nothing(t)
		if did, err := b.Rollback(t.Context(), done.ID); did || err != nil {
			t.Error("again:", did, err)
		}
	})
}

// The process that takes back does not try for a minute what cannot be.
func TestRearguardCannotRestore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, done := overTBF(t, time.Hour)
		start := time.Now()
		if did, err := b.RollbackAfter(t.Context(), done.ID, time.Second); !did || !errors.Is(err, ErrNotRestored) || time.Since(start) > 2*time.Second {
			t.Error(did, err, time.Since(start))
		}
		b.nothing(t)
		b.pass(look)
	})
}

// So does clear, and the apply that fails.
func TestClearCannotRestore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, done := overTBF(t, time.Minute)
		if err := b.Confirm(t.Context(), done.ID); err != nil {
			t.Fatal(err)
		}
		_, err := b.Apply(t.Context(), MakeClear([]string{"eth1"}, must(b.Observe("eth1"))), 0)
		if !errors.Is(err, ErrNotRestored) || !strings.Contains(err.Error(), "the kernel's default stands there now") {
			t.Error(err)
		}
		b.nothing(t)
		b.pass(look)
	})
	b := newBox(t, "eth1")
	b.k.roots[b.k.index("eth1")], b.k.refused, b.k.failAt = tbf, tbf.Kind, 2
	_, err := b.Apply(t.Context(), Make(both, must(b.Observe("eth1")), true), 0)
	if !errors.Is(err, errFake) || !strings.Contains(err.Error(), "all was undone but for this") {
		t.Error(err)
	}
	b.nothing(t)
}

// Our own queue of before that the kernel does not take any more, and a table of
// marks, fall as well.
func TestRollbackCannotRestoreOurs(t *testing.T) {
	b := newBox(t, "eth1")
	b.apply(t, Desired{Interfaces: upOnly.Interfaces, Classes: bulk})
	done, err := b.Apply(t.Context(), b.plan(t, Desired{Interfaces: []Interface{cakeAt("8mbit")}}), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	base := b.k.changes
	b.k.before = func(n int) {
		if n == base+1 || n == base+3 {
			b.k.failAt = n // to put back, and not to delete
		}
	}
	_, err = b.Rollback(t.Context(), done.ID)
	if !errors.Is(err, ErrNotRestored) || b.f.has != nil || strings.Contains(b.picture(), "cake") {
		t.Error(err, b.picture())
	}
}

// A queue that the kernel does not tell all of is said to be lost before it is, and
// when it is.
func TestCannotBeRead(t *testing.T) {
	red := tc.Qdisc{Kind: "red", Handle: 0x55 << 16, Raw: []byte{1}}
	b := newBox(t, "eth1")
	b.k.roots[b.k.index("eth1")], b.k.refused = red, "red"
	p := Make(both, must(b.Observe("eth1")), true)
	if got := text(t, p); !strings.Contains(got, "cannot be put back: clear will leave the kernel's default") {
		t.Error(got)
	}
	done, err := b.Apply(t.Context(), p, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if did, err := b.Rollback(t.Context(), done.ID); !did || !errors.Is(err, ErrNotRestored) || !strings.Contains(err.Error(), "red 55: had more to it") {
		t.Error(did, err)
	}
	b.nothing(t)
	b.k.roots[b.k.index("eth1")] = red
	if _, err := b.Apply(t.Context(), Make(both, must(b.Observe("eth1")), true), 0); err != nil {
		t.Fatal(err)
	}
	clear := MakeClear([]string{"eth1"}, must(b.Observe("eth1")))
	if got := text(t, clear); !strings.Contains(got, "red 55:, which was at the root before, had more to it") {
		t.Error(got)
	}
	b.clear(t, "eth1")
	b.nothing(t)
}

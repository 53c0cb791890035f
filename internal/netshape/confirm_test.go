package netshape

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"trafficup/internal/disk"
)

// killed is what a process that is killed by -9 does: it goes no further.
type killed struct{}

// kill lets f run until it panics with killed, and reports whether it did.
func kill(f func()) (dead bool) {
	defer func() {
		if r := recover(); r != nil {
			if _, dead = r.(killed); !dead {
				panic(r)
			}
		}
	}()
	f()
	return false
}

// guard is a rearguard in a goroutine, over the same kernel and disk.
func (b box) guard(t *testing.T) (ended *atomic.Bool) {
	ended = new(atomic.Bool)
	b.Machine.Rearguard = func(_ context.Context, id string, after time.Duration) error {
		other := *b.Machine
		go func() {
			defer ended.Store(true)
			if _, err := other.RollbackAfter(t.Context(), id, after); err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}()
		return nil
	}
	return ended
}

// Killed before any change of the kernel or after the last, the machine is as it
// was within the time.
func TestKilledAtEveryStep(t *testing.T) {
	d := Desired{Interfaces: []Interface{must(Parse(Spec{Name: "eth1", Kind: "cake", Up: "8kbit", Down: "90mbit"}))}, Classes: bulk}
	for n := 1; n <= 4; n++ {
		synctest.Test(t, func(t *testing.T) {
			b := newBox(t, "eth1")
			b.guard(t)
			b.apply(t, Desired{Interfaces: []Interface{must(Parse(Spec{Name: "eth1", Kind: "fq_codel", Up: "9mbit"}))}})
			before, files := b.picture(), b.snapshot()
			base := b.k.changes
			b.k.before = func(i int) {
				if i == base+n {
					panic(killed{})
				}
			}
			dead := kill(func() {
				if _, err := b.Apply(t.Context(), b.plan(t, d), time.Minute); err != nil {
					t.Fatal(err)
				}
			})
			if dead != (n <= 3) {
				t.Fatalf("step %d: killed %v", n, dead)
			}
			b.k.before = nil
			b.pass(time.Minute + 2*time.Second)
			if b.picture() != before {
				t.Errorf("killed at %d, now\n%s", n, b.picture())
			}
			if now := b.withoutCount(); now != files {
				t.Errorf("killed at %d, state is\n%s\nand was\n%s", n, now, files)
			}
		})
	}
}

// withoutCount is the disk without the file about rollbacks, which is gone then.
func (b box) withoutCount() string {
	if err := b.save(countFile, nil); err != nil {
		panic(err)
	}
	return b.snapshot()
}

func TestConfirm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBox(t, "eth1")
		b.Keep = "/var/netshape"
		b.guard(t)
		d := Desired{Interfaces: []Interface{cakeAt("9mbit")}, Classes: bulk}
		done, err := b.Apply(t.Context(), b.plan(t, d), time.Minute)
		if err != nil || done.ID == "" {
			t.Fatal(done, err)
		}
		if _, ok, err := b.Kept(); ok || err != nil {
			t.Error("kept before it is confirmed", err)
		}
		if err := b.Confirm(t.Context(), "other"); !errors.Is(err, ErrNoPending) {
			t.Error(err)
		}
		stands := b.picture()
		if err := b.Confirm(t.Context(), done.ID); err != nil {
			t.Fatal(err)
		}
		if kept, ok, err := b.Kept(); !ok || err != nil || kept.Interfaces[0] != d.Interfaces[0] || kept.Classes[0].Name != "bulk" {
			t.Error(kept, err)
		}
		b.pass(2 * time.Minute)
		if b.picture() != stands {
			t.Error("rolled back after all:", b.picture())
		}
		if err := b.Confirm(t.Context(), done.ID); !errors.Is(err, ErrNoPending) {
			t.Error(err)
		}
		b.clear(t, "eth1")
		if kept, _, err := b.Kept(); err != nil || len(kept.Interfaces) != 0 {
			t.Error("kept after clear:", kept, err)
		}
	})
}

// The process that would take back ends with the need for it, however soon that
// is over, and touches nothing then.
func TestRearguardEnds(t *testing.T) {
	d := Desired{Interfaces: []Interface{cakeAt("9mbit")}}
	for name, settle := range map[string]func(ctx context.Context, b box, id string) error{
		"confirmed":  func(ctx context.Context, b box, id string) error { return b.Confirm(ctx, id) },
		"taken back": func(ctx context.Context, b box, id string) error { _, err := b.Rollback(ctx, id); return err },
		"gone":       func(_ context.Context, b box, _ string) error { return b.save(pendingFile, nil) },
	} {
		for _, after := range []time.Duration{0, 10 * time.Second} {
			synctest.Test(t, func(t *testing.T) {
				b := newBox(t, "eth1")
				ended := b.guard(t)
				done, err := b.Apply(t.Context(), b.plan(t, d), time.Minute)
				if err != nil {
					t.Fatal(err)
				}
				b.pass(after)
				if after > 0 && ended.Load() {
					t.Errorf("%s: it left its post", name)
				}
				if err := settle(t.Context(), b, done.ID); err != nil {
					t.Fatal(err)
				}
				stands, files := b.picture(), b.snapshot()
				b.pass(look)
				if !ended.Load() || b.picture() != stands || b.snapshot() != files {
					t.Errorf("%s after %v: ended %v\n%s%s", name, after, ended.Load(), b.picture(), b.snapshot())
				}
			})
		}
	}
}

// It ends with an apply that comes to nothing, and goes nowhere when the directory
// of the state is gone. When it cannot have the lock, it stays for the whole time.
func TestRearguardOfNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBox(t, "eth1")
		ended := b.guard(t)
		b.k.failAt = 1
		if _, err := b.Apply(t.Context(), b.plan(t, Desired{Interfaces: []Interface{cakeAt("9mbit")}}), time.Minute); !errors.Is(err, errFake) {
			t.Fatal(err)
		}
		b.pass(0)
		if !ended.Load() {
			t.Error("it waits for what failed")
		}
		b.Dir = "/run/gone"
		b.Lock = func(context.Context, string) (func() error, error) { return nil, errFake }
		if did, err := b.RollbackAfter(t.Context(), "x", time.Minute); did || err != nil {
			t.Error(did, err)
		}
		b.Dir = "/run/netshape"
		start := time.Now()
		if _, err := b.RollbackAfter(t.Context(), "x", time.Minute); !errors.Is(err, errFake) || time.Since(start) < time.Minute {
			t.Error(err, "after", time.Since(start))
		}
	})
}

// A rollback is for its own apply only, in its own boot, and once.
func TestRollbackIsFor(t *testing.T) {
	b := newBox(t, "eth1")
	first, err := b.Apply(t.Context(), b.plan(t, Desired{Interfaces: []Interface{cakeAt("9mbit")}}), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Confirm(t.Context(), first.ID); err != nil {
		t.Fatal(err)
	}
	before := b.picture()
	second, err := b.Apply(t.Context(), b.plan(t, Desired{Interfaces: []Interface{cakeAt("8mbit")}}), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	stands := b.picture()
	if did, err := b.Rollback(t.Context(), first.ID); did || err != nil || b.picture() != stands {
		t.Error("the first one's rollback:", did, err, b.picture())
	}
	b.Boot = "boot2"
	if did, err := b.Rollback(t.Context(), second.ID); did || err != nil || b.picture() != stands {
		t.Error("after a reboot:", did, err, b.picture())
	}
	b.Boot = "boot1"
	if did, err := b.Rollback(t.Context(), second.ID); !did || err != nil || b.picture() != before {
		t.Error(did, err, b.picture())
	}
	if did, err := b.Rollback(t.Context(), second.ID); did || err != nil {
		t.Error("again:", did, err)
	}
	if s := must(b.Status("eth1")); s.Rollbacks != 1 || s.Pending != nil {
		t.Errorf("%+v", s)
	}
}

// What fails in a rollback is tried again until it works.
func TestRollbackTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBox(t, "eth1")
		b.guard(t)
		before := b.picture()
		if _, err := b.Apply(t.Context(), b.plan(t, Desired{Interfaces: []Interface{cakeAt("9mbit")}}), time.Minute); err != nil {
			t.Fatal(err)
		}
		b.k.before = func(n int) {
			if n < 5 {
				b.k.failAt = n
			}
		}
		b.pass(time.Minute + 5*time.Second)
		if b.picture() != before {
			t.Error(b.picture())
		}
	})
}

// mortal is a disk whose user can die at each operation.
type mortal struct {
	disk.FS
	b *box
}

func (m mortal) OpenFile(name string, flag int, perm fs.FileMode) (disk.File, error) {
	m.b.life()
	return m.FS.OpenFile(name, flag, perm)
}
func (m mortal) Rename(from, to string) error { m.b.life(); return m.FS.Rename(from, to) }
func (m mortal) Remove(name string) error     { m.b.life(); return m.FS.Remove(name) }
func (m mortal) SyncDir(name string) error    { m.b.life(); return m.FS.SyncDir(name) }

// A crash at any operation of the disk or kernel, in apply or in the rollback, is
// caught up on by the next try.
func TestRollbackAfterCrashes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := newBox(t, "eth1", "eth2")
		s, d := drawStart(rt), drawDesired(rt)
		s.ifb = false
		s.prepare(t, b)
		id := ""
		b.Machine.Rearguard = func(_ context.Context, given string, _ time.Duration) error { id = given; return nil }
		p := Make(d, must(b.Observe("eth1", "eth2")), true)
		before, files := b.picture(), b.snapshot()
		b.k.before, b.Machine.FS = func(int) { b.life() }, mortal{b.FS, &b}
		for _, op := range []func(){
			func() { _, _ = b.Apply(t.Context(), p, time.Minute) },
			func() { _, _ = b.Rollback(t.Context(), id) },
		} {
			left := rapid.IntRange(1, 60).Draw(rt, "killed at")
			b.life = func() {
				if left--; left == 0 {
					panic(killed{})
				}
			}
			kill(op)
		}
		b.life = func() {}
		if _, err := b.Rollback(t.Context(), id); err != nil {
			rt.Fatal(err)
		}
		if len(p.Steps) == 0 {
			return // nothing to be taken back: the state file may be new
		}
		if b.picture() != before || b.withoutCount() != files {
			rt.Fatalf("now\n%s\n%s\nand it was\n%s\n%s", b.picture(), b.snapshot(), before, files)
		}
	})
}

// Without somebody to take it back nothing is changed.
func TestNoRearguard(t *testing.T) {
	b := newBox(t, "eth1")
	b.Machine.Rearguard = func(context.Context, string, time.Duration) error { return errors.New("no more processes") }
	_, err := b.Apply(t.Context(), b.plan(t, Desired{Interfaces: []Interface{cakeAt("9mbit")}}), time.Minute)
	if err == nil || !strings.Contains(err.Error(), "nothing was changed") || b.k.changes != 0 {
		t.Error(err, b.k.changes)
	}
}

// An apply that fails leaves nothing waiting.
func TestFailedApplyWaitsForNothing(t *testing.T) {
	b := newBox(t, "eth1")
	b.k.failAt = 1
	if _, err := b.Apply(t.Context(), b.plan(t, Desired{Interfaces: []Interface{cakeAt("9mbit")}}), time.Minute); !errors.Is(err, errFake) {
		t.Fatal(err)
	}
	if p := must(b.pending()); p != nil {
		t.Error(p)
	}
}

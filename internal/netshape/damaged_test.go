package netshape

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"trafficup/internal/disk"
)

// spoil makes a file of the state what a disk without room leaves of it, or another.
func (b box) spoil(t *testing.T, path, content string) {
	t.Helper()
	if err := b.FS.MkdirAll(path[:strings.LastIndex(path, "/")], 0o700); err != nil {
		t.Fatal(err)
	}
	f := must(b.FS.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600))
	if _, err := f.Write([]byte(content)); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

var d9 = Desired{Interfaces: []Interface{must(Parse(Spec{Name: "eth1", Kind: "cake", Up: "9mbit", Down: "90mbit"}))}, Classes: bulk}

// odd is of another type in each file, behind something that is right.
const odd = `{"boot":"boot1","count":"x","link":"x","config":7,"changes":7,"interfaces":[{"name":"eth7"},7]}`

// A file of the state that is damaged is named, and stops neither who looks, nor who
// takes away, nor who keeps standing. Who changes something sets it aside.
func TestDamagedFiles(t *testing.T) {
	for _, name := range []string{"eth1.json", marksFile, pendingFile, countFile, "steered:eth1.json", keptFile} {
		for _, content := range []string{"", `{"boot":"boot1","li`, odd} {
			b := newBox(t, "eth1")
			b.Keep = "/var/kept"
			path := b.Dir + "/" + name
			if name == keptFile {
				path = b.Keep + "/" + name
			}
			first := b.picture()
			b.apply(t, d9)
			b.spoil(t, path, content)
			var said []string
			b.Warn = func(text string) { said = append(said, text) }
			if s, err := b.Status("eth1"); err != nil || !s.Interfaces[0].Ours {
				t.Fatalf("%s %q: status: %v %+v", name, content, err, s)
			}
			if kept, ok, err := b.Kept(); err != nil || name == keptFile && (ok || len(kept.Interfaces) > 0) {
				t.Errorf("%s %q: %v, %+v", name, content, err, kept)
			}
			before := len(said)
			if _, _, err := b.Kept(); err != nil || len(said) != before {
				t.Errorf("%s %q: %v, said again: %q", name, content, err, said)
			}
			if len(said) == 0 || !strings.Contains(said[0], path) {
				t.Errorf("%s %q: said %q", name, content, said)
			}
			delete(b.k.roots, b.k.index("eth1")) // somebody's tc qdisc del
			ctx, stop := context.WithCancel(t.Context())
			b.Watch(ctx, d9, nil, func(e Event) {
				stop()
				if e.What != EventApplied {
					t.Errorf("%s %q: watch: %+v", name, content, e)
				}
			})
			if q := b.k.roots[b.k.index("eth1")]; q.Shaper != d9.Interfaces[0].Root {
				t.Errorf("%s %q: not restored", name, content)
			}
			b.spoil(t, path, content)
			if b.clear(t, "eth1"); b.picture() != first {
				t.Errorf("%s %q: cleared it is\n%s", name, content, b.picture())
			}
			if _, err := disk.ReadFile(b.FS, path+damagedSuffix); err != nil && name != "steered:eth1.json" { // that is of a running autorate
				t.Errorf("%s %q: %v", name, content, err)
			}
		}
	}
}

// A damaged file of an interface that is gone is in nobody's way, either.
func TestDamagedFileOfGone(t *testing.T) {
	b := newBox(t, "eth0", "eth1")
	b.apply(t, d9)
	b.k.remove("eth1")
	b.spoil(t, b.Dir+"/eth1.json", "")
	if b.clear(t, "eth1"); b.f.has != nil || strings.Contains(b.snapshot(), "/eth1.json:") {
		t.Error(b.picture(), b.snapshot())
	}
}

// That nobody can read any more what waits is no confirmation.
func TestDamagedWhileItWaits(t *testing.T) {
	for _, content := range []string{"", `{"boot":"boot1","id":`, odd} {
		for _, locked := range []bool{false, true} { // then it was set aside by another process
			synctest.Test(t, func(t *testing.T) {
				b := newBox(t, "eth1")
				ended := b.guard(t)
				b.save("apply:pending.json"+damagedSuffix, "of an earlier one")
				first := b.picture()
				done, err := b.Apply(t.Context(), b.plan(t, d9), time.Minute)
				if err != nil {
					t.Fatal(err)
				}
				b.pass(10 * time.Second)
				b.spoil(t, b.Dir+"/"+pendingFile, content)
				if locked {
					if err := b.Confirm(t.Context(), done.ID); !errors.Is(err, ErrNoPending) {
						t.Error(err)
					}
				}
				b.pass(time.Minute)
				if b.picture() != first || !ended.Load() {
					t.Errorf("%q, set aside %v, ended %v:\n%s", content, locked, ended.Load(), b.picture())
				}
			})
		}
	}
}

// The clock of people may be set while an apply waits; what waits for its time goes
// by another.
func TestClockIsSet(t *testing.T) {
	b := newBox(t, "eth1")
	up := 1000 * time.Second
	b.Uptime = func() (time.Duration, error) { return up, nil }
	done, err := b.Apply(t.Context(), b.plan(t, d9), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if p := must(b.pending()); !p.Until.Equal(done.Until) {
		t.Errorf("%v, %v", p.Until, done.Until)
	}
	// As after a step of an hour: what was written is long gone by the clock of now.
	q := must(b.transaction())
	q.Until = q.Until.Add(-time.Hour)
	if err := b.save(pendingFile, q); err != nil {
		t.Fatal(err)
	}
	stands := b.picture()
	if e := b.reconcile(t.Context(), d9)["eth1"]; e.What != EventHeld || b.picture() != stands {
		t.Errorf("%+v\n%s", e, b.picture())
	}
	if left := time.Until(must(b.pending()).Until); left < 50*time.Second || left > time.Minute {
		t.Error(left)
	}
	up += time.Minute + late + time.Second
	if e := b.reconcile(t.Context(), d9)["eth1"]; !strings.Contains(e.Text, "took back") || b.picture() == stands {
		t.Errorf("%+v", e)
	}
}

// Nobody's table of our name is replaced by force alone, and never taken away.
func TestForeignTables(t *testing.T) {
	for name, tt := range map[string]struct {
		table fakeTable
		force bool
	}{"empty": {table: fakeTable{}}, "owned": {table: fakeTable{owned: true}}, "owned, by force": {fakeTable{owned: true}, true}} {
		b := newBox(t, "eth1")
		b.f.table = &tt.table
		p := Make(d9, must(b.Observe("eth1")), tt.force)
		if len(p.Refusals) != 1 || p.Refusals[0].Code != CodeForeignTable || strings.Contains(p.Refusals[0].Text, "owns") != tt.table.owned {
			t.Errorf("%s: %+v", name, p.Refusals)
		}
		b.apply(t, upOnly)
		b.clear(t, "eth1")
		if b.f.table == nil {
			t.Errorf("%s: it was deleted", name)
		}
	}
	b := newBox(t, "eth1")
	b.f.table = &fakeTable{}
	if p := Make(d9, must(b.Observe("eth1")), true); len(p.Refusals) > 0 {
		t.Errorf("%+v", p.Refusals)
	}
}

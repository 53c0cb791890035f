package netshape

import (
	"strings"
	"testing"
)

// Whoever dies in a clear, at whatever operation of the disk or kernel, leaves what
// the next one needs to bring back what was there first.
func TestClearKilledAtEveryStep(t *testing.T) {
	for n, dead := 1, true; dead; n++ {
		b := newBox(t, "eth1")
		b.Keep = "/var/kept"
		b.k.roots[b.k.index("eth1")] = tbf
		first := b.picture()
		d := Desired{Interfaces: []Interface{must(Parse(Spec{Name: "eth1", Kind: "cake", Up: "9mbit", Down: "90mbit"}))}, Classes: bulk}
		if _, err := b.Apply(t.Context(), Make(d, must(b.Observe("eth1")), true), 0); err != nil {
			t.Fatal(err)
		}
		p := MakeClear([]string{"eth1"}, must(b.Observe("eth1")))
		whole, left := b.FS, n
		b.life = func() {
			if left--; left == 0 {
				panic(killed{})
			}
		}
		b.k.before, b.Machine.FS = func(int) { b.life() }, mortal{b.FS, &b}
		dead = kill(func() { _, _ = b.Apply(t.Context(), p, 0) })
		b.k.before, b.Machine.FS = nil, whole
		if names := must(b.Shaped()); len(names) > 0 { // what a clear without names is about
			b.clear(t, names...)
		}
		if now := b.picture(); now != first {
			t.Errorf("killed at %d and cleared again it is\n%s\nand it was\n%s", n, now, first)
		}
		if files := b.snapshot(); strings.Contains(files, "eth1.json") || strings.Contains(files, marksFile) {
			t.Errorf("killed at %d and cleared again there is\n%s", n, files)
		}
		if kept, _, err := b.Kept(); err != nil || len(kept.Interfaces) > 0 {
			t.Errorf("killed at %d and cleared again, the next boot brings back %+v, %v", n, kept, err)
		}
		if n == 1 && !dead {
			t.Error("nobody was killed")
		}
	}
}

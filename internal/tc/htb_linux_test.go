package tc

import (
	"testing"

	"github.com/vishvananda/netlink"
)

// fifo is the shaper that every kernel with HTB has.
func fifo(rate uint64, tins bool) Shaper {
	return Shaper{Kind: KindHTB, HTB: HTB{Rate: rate, Tins: tins, FIFO: true}}
}

// packets are how many each tin has sent.
func packets(q Qdisc) map[string]uint64 {
	n := map[string]uint64{}
	for _, t := range q.Tins {
		n[t.Name] = t.Packets
	}
	return n
}

// TestHTB goes through changes of one tree. Whatever is changed, the class that
// stays keeps its counters.
func TestHTB(t *testing.T) {
	inNamespace(t)
	a, _ := pair(t)
	var sent uint64
	for _, s := range []Shaper{
		fifo(9e6, false), fifo(9e6, false), fifo(9e6, true), fifo(9e6, true), fifo(1e6, true), fifo(1e6, false),
		fifo(100e9, false), fifo(8000, true), fifo(9e6, true),
	} {
		ok(t, SetRoot(a, s))
		q := root(t, a)
		if q.Shaper != s || q.Handle != HTBHandle {
			t.Errorf("set %v, there is %+v", s, q)
		}
		if len(q.Tins) != map[bool]int{false: 1, true: 3}[s.HTB.Tins] {
			t.Errorf("tins %+v", q.Tins)
		}
		transmit(t, a, frame(false, 0, 60))
		sent++
		q = root(t, a)
		if n := packets(q)["Best Effort"] + uint64(q.Stats.Queued); n < sent {
			t.Errorf("%d packets counted or queued, %d sent", n, sent)
		}
	}
	ok(t, DeleteRoot(a))
	if q := root(t, a); !q.Default {
		t.Errorf("there is %+v", q)
	}
}

// wentTo holds that three packets more than before went through one tin.
func wentTo(t *testing.T, q Qdisc, before map[string]uint64, want string) {
	t.Helper()
	took := packets(q)
	for name := range took {
		took[name] -= before[name]
	}
	for name, n := range took {
		// The kernel itself sends a few as well, such as for its addresses.
		if (name == want) != (n >= 3) || took[want] < 3 {
			t.Errorf("they went to %v, want %s", took, want)
		}
	}
	if len(took) == 0 {
		t.Error("no tins")
	}
}

// TestHTBSorts holds which class takes what, for each DSCP in both families.
func TestHTBSorts(t *testing.T) {
	inNamespace(t)
	a, _ := pair(t)
	ok(t, SetRoot(a, fifo(1e9, true)))
	for _, v6 := range []bool{false, true} {
		for dscp := range byte(64) {
			want := "Best Effort"
			switch {
			case dscp == 1 || dscp == 8:
				want = "Bulk"
			case dscp >= 16:
				want = "Interactive"
			}
			before := packets(root(t, a))
			transmit(t, a, frame(v6, dscp, 100), frame(v6, dscp, 100), frame(v6, dscp, 100))
			wentTo(t, root(t, a), before, want)
		}
	}
}

// TestHTBChanged holds that what somebody else has changed is not taken for
// ours, and is ours again after SetRoot.
func TestHTBChanged(t *testing.T) {
	inNamespace(t)
	a, _ := pair(t)
	s := fifo(9e6, true)
	attrs := func(class uint32) netlink.ClassAttrs {
		return netlink.ClassAttrs{LinkIndex: a, Handle: class, Parent: topClass}
	}
	for what, change := range map[string]func() error{
		"a class's rate": func() error {
			return netlink.ClassReplace(netlink.NewHtbClass(attrs(bulkClass), netlink.HtbClassAttrs{Rate: 4e6}))
		},
		"a class more": func() error {
			return netlink.ClassReplace(netlink.NewHtbClass(attrs(HTBHandle|0x99), netlink.HtbClassAttrs{Rate: 4e6}))
		},
		"a class less": func() error {
			return first(remove(filters, head{link: a, parent: HTBHandle}), remove(classes, head{link: a, handle: bulkClass, parent: topClass}))
		},
		"no filters": func() error { return remove(filters, head{link: a, parent: HTBHandle}) },
		"a filter's value": func() error {
			f := dscpFilters()[0]
			if err := remove(filters, head{link: a, parent: HTBHandle, info: f.info()}); err != nil {
				return err
			}
			f.value = 0
			return set(filters, head{link: a, handle: 1, parent: HTBHandle, info: f.info()}, "u32", f.encode())
		},
		"another leaf": func() error {
			return set(qdiscs, head{link: a, handle: 0x99 << 16, parent: bulkClass}, "pfifo", nil)
		},
	} {
		ok(t, SetRoot(a, s))
		if q := root(t, a); q.Shaper != s {
			t.Fatalf("set %v, there is %+v", s, q)
		}
		ok(t, change())
		if q := root(t, a); q.Shaper != (Shaper{}) {
			t.Errorf("%s: taken for ours: %+v", what, q)
		}
		ok(t, SetRoot(a, s))
		if q := root(t, a); q.Shaper != s {
			t.Errorf("%s: set %v again, there is %+v", what, s, q)
		}
	}
}

// first is the first error.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

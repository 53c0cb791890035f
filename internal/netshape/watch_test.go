package netshape

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"trafficup/internal/tc"
)

// watched is a watch in a bubble, with what it said.
type watched struct {
	box
	d      Desired
	events chan struct{}
	said   []string
	stop   context.CancelFunc
}

func (w *watched) start(t *testing.T) {
	defer w.k.meet()()
	var ctx context.Context
	ctx, w.stop = context.WithCancel(t.Context())
	w.events = make(chan struct{}, 1)
	go w.Watch(ctx, w.d, w.events, func(e Event) { w.said = append(w.said, e.What+": "+e.Text) })
	synctest.Wait()
}

// event is a change of links, and the time a watch takes to see to it.
func (w *watched) event() {
	w.events <- struct{}{}
	w.pass(time.Second)
}

// heard returns and forgets what was said.
func (w *watched) heard() string {
	s := strings.Join(w.said, "\n")
	w.said = nil
	return s
}

func watch(t *testing.T, f func(t *testing.T, w *watched)) {
	synctest.Test(t, func(t *testing.T) {
		w := &watched{box: newBox(t, "eth0", "eth1"), d: Desired{Interfaces: []Interface{cakeAt("9mbit")}, Classes: bulk}}
		f(t, w)
		w.stop()
		synctest.Wait()
	})
}

func (w *watched) stands() bool {
	return w.k.roots[w.k.index("eth1")].Shaper == w.d.Interfaces[0].Root && w.f.has != nil
}

func TestWatchSetsUp(t *testing.T) {
	watch(t, func(t *testing.T, w *watched) {
		w.start(t)
		if got := w.heard(); !w.stands() || got != "applied: set up" {
			t.Error(got)
		}
		changes := w.k.changes
		w.pass(time.Hour)
		if w.k.changes != changes || w.heard() != "" {
			t.Error("it does something although nothing happens")
		}
	})
}

// A modem that is unplugged and plugged in again is another link of the same name.
func TestWatchLinkBounce(t *testing.T) {
	watch(t, func(t *testing.T, w *watched) {
		w.k.remove("eth1")
		w.start(t)
		if got := w.heard(); got != "gone: waiting for the interface" {
			t.Error(got)
		}
		for range 3 {
			w.k.add("eth1")
			w.event()
			if got := w.heard(); !w.stands() || !strings.HasPrefix(got, "applied: set up") {
				t.Error(got)
			}
			w.k.remove("eth1")
			w.event()
			if got := w.heard(); got != "gone: waiting for the interface" {
				t.Error(got)
			}
		}
	})
}

// nft flush ruleset and tc qdisc del are seen within ten seconds.
func TestWatchReconciles(t *testing.T) {
	watch(t, func(t *testing.T, w *watched) {
		w.start(t)
		w.heard()
		w.f.has = nil
		w.pass(every + time.Second)
		if got := w.heard(); !w.stands() || !strings.Contains(got, "table of marks") {
			t.Error(got)
		}
		delete(w.k.roots, w.k.index("eth1"))
		w.pass(every + time.Second)
		if got := w.heard(); !w.stands() || !strings.Contains(got, "root: gone") {
			t.Error(got)
		}
		q := w.k.roots[w.k.index("eth1")]
		q.Shaper.Cake.Rate = 1e6
		w.k.roots[w.k.index("eth1")] = q
		w.pass(every + time.Second)
		if got := w.heard(); !w.stands() || !strings.Contains(got, "rate 1mbit, want 9mbit") {
			t.Error(got)
		}
	})
}

// Somebody else's queue is told of, once, and stays.
func TestWatchLeavesOthers(t *testing.T) {
	watch(t, func(t *testing.T, w *watched) {
		w.start(t)
		w.heard()
		changes := w.k.changes
		w.k.roots[w.k.index("eth1")] = tbf
		w.pass(5 * every)
		if got := w.heard(); got != "drift: the root is tbf 8001: now, which is not ours: it stays" || w.k.changes != changes {
			t.Error(got, w.k.changes-changes)
		}
		delete(w.k.roots, w.k.index("eth1"))
		w.pass(every + time.Second)
		if !w.stands() {
			t.Error(w.heard())
		}
	})
}

// A watch does not undo a rollback, nor come before a confirmation; what a person
// applies meanwhile counts.
func TestWatchAndConfirm(t *testing.T) {
	watch(t, func(t *testing.T, w *watched) {
		w.guard(t)
		bad := Desired{Interfaces: []Interface{cakeAt("8kbit")}, Classes: bulk}
		w.d = bad
		before := w.picture()
		if _, err := w.Apply(t.Context(), w.plan(t, bad), time.Minute); err != nil {
			t.Fatal(err)
		}
		w.start(t)
		w.pass(3 * time.Minute)
		if got := w.heard(); w.picture() != before || !strings.Contains(got, "waits for its confirmation") || !strings.Contains(got, "was taken back") {
			t.Error(got, w.picture())
		}
		w.apply(t, Desired{Interfaces: []Interface{cakeAt("8mbit")}, Classes: bulk})
		delete(w.k.roots, w.k.index("eth1"))
		w.event()
		if got := w.k.roots[w.k.index("eth1")].Shaper.Cake.Rate; got != 8e6 {
			t.Error(got, w.heard())
		}
	})
}

// Where the process that takes back was killed, a watch does its work.
func TestWatchTakesBack(t *testing.T) {
	watch(t, func(t *testing.T, w *watched) {
		before := w.picture()
		w.d = Desired{Interfaces: []Interface{cakeAt("8kbit")}}
		if _, err := w.Apply(t.Context(), w.plan(t, w.d), time.Minute); err != nil {
			t.Fatal(err)
		}
		w.start(t)
		w.pass(2 * time.Minute)
		if w.picture() != before {
			t.Error(w.heard(), w.picture())
		}
	})
}

// An error ends nothing, and is told once.
func TestWatchGoesOn(t *testing.T) {
	watch(t, func(t *testing.T, w *watched) {
		w.k.missing = []tc.Kind{"cake"}
		w.start(t)
		w.pass(time.Minute + time.Second)
		if got := w.heard(); got != "failed: refused: this kernel has no sch_cake" {
			t.Error(got)
		}
		w.k.missing = nil
		w.k.failAt = 1
		w.pass(every)
		if got := w.heard(); !strings.Contains(got, errFake.Error()) {
			t.Error(got)
		}
		w.pass(every)
		if !w.stands() {
			t.Error(w.heard())
		}
	})
}

func TestDrift(t *testing.T) {
	b := newBox(t, "eth1")
	want := must(Parse(Spec{Name: "eth1", Kind: "cake", Up: "9mbit", Down: "90mbit"}))
	b.apply(t, Desired{Interfaces: []Interface{want}, Classes: bulk})
	drift := func() string {
		s := must(b.Status("eth1"))
		return fmt.Sprint(s.Interfaces[0].Drift, s.Marks.Drift)
	}
	if got := drift(); got != "[]" {
		t.Error(got)
	}
	s := must(b.Status("eth1")).Interfaces[0]
	if !s.Present || !s.Ours || s.Root.Rate != 9e6 || s.Root.Kind != "cake" || s.Ingress.Rate != 90e6 || *s.Wanted != *want.wanted() || s.Since.IsZero() {
		t.Errorf("%+v", s)
	}
	b.k.led = map[int]int{}
	b.f.has = nil
	if got := drift(); got != "[ingress: nothing is led to its ifb, or that has no queue]the table is gone" {
		t.Error(got)
	}
	b.k.roots[b.k.index("eth1")] = tbf
	if got := drift(); !strings.Contains(got, "root: replaced by tbf 8001:, which is not ours") {
		t.Error(got)
	}
	b.k.remove("eth1")
	if got := drift(); !strings.Contains(got, "the interface is gone") {
		t.Error(got)
	}
	b.k.add("eth1")
	if got := drift(); !strings.Contains(got, "went and came back") || !strings.Contains(got, "root: gone") {
		t.Error(got)
	}
}

// What was taken back is set up again when somebody applies it once more.
func TestRefusedUntilApplied(t *testing.T) {
	watch(t, func(t *testing.T, w *watched) {
		w.guard(t)
		if _, err := w.Apply(t.Context(), w.plan(t, w.d), time.Minute); err != nil {
			t.Fatal(err)
		}
		w.pass(2 * time.Minute)
		w.start(t)
		if got := w.heard(); w.stands() || !strings.Contains(got, "was taken back") {
			t.Error(got)
		}
		w.apply(t, w.d)
		w.event()
		w.f.has = nil
		w.pass(every + time.Second)
		if !w.stands() {
			t.Error(w.heard())
		}
	})
}

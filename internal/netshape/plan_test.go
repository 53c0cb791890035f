package netshape

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"trafficup/internal/dscpmark"
	"trafficup/internal/tc"
)

var bulk = []dscpmark.Class{{Name: "bulk", DSCP: 1, Match: dscpmark.Match{Ports: []uint16{443}}}}

func text(t testing.TB, p Plan) string {
	t.Helper()
	var b bytes.Buffer
	if err := p.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// tbf is a queue that somebody else made.
var tbf = tc.Qdisc{Kind: "tbf", Handle: 0x8001 << 16, Raw: []byte{1, 2, 3}}

func TestPlanText(t *testing.T) {
	b := newBox(t, "eth1")
	d := Desired{Interfaces: []Interface{must(Parse(Spec{Name: "eth1", Kind: "cake", Up: "9mbit", Down: "90mbit"}))}, Classes: bulk}
	got := text(t, b.plan(t, d))
	for _, want := range []string{
		"+ dev eth1 root: cake bandwidth 9mbit diffserv4",
		"# tc qdisc replace dev eth1 root handle 7a50: cake bandwidth 9mbit diffserv4 dual-srchost",
		"+ dev eth1 ingress: cake bandwidth 90mbit besteffort",
		"u32 match u32 0 0 action mirred egress redirect dev ifb4eth1",
		"+ nft table inet trafficup: bulk dscp 1 on eth1", "# nft -f - <<END",
		"3 to add, 0 to change, 0 to remove",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	b.apply(t, d)
	if got := text(t, b.plan(t, d)); got != "nothing to do: everything stands as desired\n" {
		t.Error(got)
	}
	for _, tt := range []struct {
		spec Spec
		want string
	}{
		{Spec{Name: "eth1", Kind: "cake", Up: "8mbit", Down: "90mbit"}, "~ dev eth1 root: cake bandwidth 8mbit diffserv4 dual-srchost rtt 100ms nat nowash ack-filter split-gso raw (in place, counters stay: rate 9mbit, want 8mbit, ack-filter no-ack-filter, want ack-filter)"},
		{Spec{Name: "eth1", Kind: "fq_codel", Up: "9mbit"}, "recreated: kind cake becomes htb; packets in its queue are dropped and counters begin at 0"},
		{Spec{Name: "eth1", Kind: "fq_codel", Up: "9mbit"}, "- dev eth1 ingress: cake bandwidth 90mbit"},
		{Spec{Name: "eth1", Kind: "none"}, "- dev eth1 root: cake bandwidth 9mbit"},
		{Spec{Name: "eth1", Kind: "none"}, "has no effect on the delay in the modem or dish"},
		{Spec{Name: "eth1", Kind: "none"}, "eth1: kind none marks the classes and shapes nothing"},
		{Spec{Name: "eth1", Kind: "cake"}, "has no effect on the delay in the modem or dish"},
	} {
		if got := text(t, b.plan(t, Desired{Interfaces: []Interface{must(Parse(tt.spec))}, Classes: bulk})); !strings.Contains(got, tt.want) {
			t.Errorf("%+v: no %q in\n%s", tt.spec, tt.want, got)
		}
	}
}

// What takes away comes after what adds.
func TestOrder(t *testing.T) {
	b := newBox(t, "eth1")
	b.apply(t, Desired{Interfaces: []Interface{must(Parse(Spec{Name: "eth1", Kind: "cake", Up: "9mbit", Down: "90mbit"}))}})
	p := b.plan(t, Desired{Interfaces: []Interface{must(Parse(Spec{Name: "eth1", Kind: "fq_codel", Up: "9mbit"}))}, Classes: bulk})
	ops := ""
	for _, s := range p.Steps {
		ops += s.Op + s.Slot + " "
	}
	if ops != "~root +marks -ingress " {
		t.Error(ops)
	}
}

func TestPlanJSON(t *testing.T) {
	b := newBox(t, "eth1")
	d := Desired{Interfaces: []Interface{cakeAt("9mbit")}}
	var got struct {
		Steps []struct {
			Op, Interface, Slot, Text string
			Commands                  []string
		}
		Equal bool
	}
	if err := json.Unmarshal(must(json.Marshal(b.plan(t, d))), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Steps) != 1 || got.Steps[0].Op != "+" || got.Steps[0].Interface != "eth1" || got.Steps[0].Slot != "root" || got.Equal {
		t.Errorf("%+v", got)
	}
	b.apply(t, d)
	if s := string(must(json.Marshal(b.plan(t, d)))); s != `{"steps":[],"equal":true}` {
		t.Error(s)
	}
}

func TestRefusals(t *testing.T) {
	fq := must(Parse(Spec{Name: "eth1", Kind: "fq_codel", Up: "9mbit"}))
	both := must(Parse(Spec{Name: "eth1", Kind: "cake", Up: "9mbit", Down: "9mbit"}))
	for _, tt := range []struct {
		name, code, hint string
		want             Interface
		spoil            func(b box)
	}{
		{"missing interface", CodeNoInterface, "there are: wan0", cakeAt("9mbit"), func(b box) { b.k.remove("eth1"); b.k.add("wan0") }},
		{"no rights", CodeNoPermission, "CAP_NET_ADMIN", cakeAt("9mbit"), func(b box) { b.k.denied = errors.New("lacks it") }},
		{"no cake", CodeNoKernel, "--kind fq_codel", cakeAt("9mbit"), func(b box) { b.k.missing = []tc.Kind{"cake"} }},
		{"no fq_codel", CodeNoKernel, "modprobe sch_fq_codel; or take --kind cake", fq, func(b box) { b.k.missing = []tc.Kind{"fq_codel"} }},
		{"no htb", CodeNoKernel, "modprobe sch_htb; or take --kind cake", fq, func(b box) { b.k.missing = []tc.Kind{"htb"} }},
		{"neither for cake", CodeNoKernel, "linux-image", cakeAt("9mbit"), func(b box) { b.k.missing = []tc.Kind{"cake", "fq_codel"} }},
		{"neither for fq_codel", CodeNoKernel, "--kind none marks", fq, func(b box) { b.k.missing = []tc.Kind{"cake", "htb", "fq_codel"} }},
		{"no ingress", CodeNoKernel, "modprobe sch_ingress", both, func(b box) { b.k.missing = []tc.Kind{"ingress"} }},
		{"no ifb", CodeNoKernel, "--down", both, func(b box) { b.k.missing = []tc.Kind{kindIFB} }},
		{"foreign root", CodeForeignQdisc, "--force", cakeAt("9mbit"), func(b box) { b.k.roots[b.k.index("eth1")] = tbf }},
		{"foreign table", CodeForeignTable, "--force", cakeAt("9mbit"), func(b box) { b.f.alien = true }},
		{"bad class", CodeBadMarks, "cgroup", cakeAt("9mbit"), func(b box) { b.f.bad = errors.New("no such cgroup") }},
		{"pending", CodePending, "netshape confirm", cakeAt("9mbit"), func(b box) {
			if err := b.save(pendingFile, transaction{ID: "abc", Boot: "boot1"}); err != nil {
				panic(err)
			}
		}},
	} {
		b := newBox(t, "eth1")
		tt.spoil(b)
		before := b.picture()
		p := b.plan(t, Desired{Interfaces: []Interface{tt.want}, Classes: bulk})
		if len(p.Refusals) != 1 || p.Refusals[0].Code != tt.code || !strings.Contains(p.Refusals[0].Hint, tt.hint) || p.Equal {
			t.Errorf("%s: %+v", tt.name, p.Refusals)
		}
		_, err := b.Apply(t.Context(), p, 0)
		if _, ok := errors.AsType[*RefusedError](err); !ok || b.k.changes != 0 || b.picture() != before {
			t.Errorf("%s: %v after %d changes", tt.name, err, b.k.changes)
		}
	}
}

// Where there is no queue of ours at all, both ways to one are named and neither is
// told as the way out of the lack of the other.
func TestNoQueue(t *testing.T) {
	for _, kind := range []string{"cake", "fq_codel"} {
		b := newBox(t, "eth1")
		b.k.missing = []tc.Kind{"cake", "fq_codel", kindIFB}
		p := b.plan(t, Desired{Interfaces: []Interface{must(Parse(Spec{Name: "eth1", Kind: kind, Up: "9mbit", Down: "90mbit"}))}})
		if len(p.Refusals) != 2 || p.Refusals[0].Text != "this kernel has no sch_cake and no sch_fq_codel" || !strings.Contains(p.Refusals[1].Text, "ifb") {
			t.Errorf("%+v", p.Refusals)
		}
		for _, way := range []string{"modprobe sch_cake", "modprobe -a sch_htb sch_fq_codel", "--kind none"} {
			if !strings.Contains(p.Refusals[0].Hint, way) {
				t.Errorf("no %q in %s", way, p.Refusals[0].Hint)
			}
		}
		b.apply(t, Desired{Interfaces: []Interface{must(Parse(Spec{Name: "eth1", Kind: "none"}))}, Classes: bulk})
	}
}

// In a container the hints are about that.
func TestContained(t *testing.T) {
	b := newBox(t, "eth0")
	b.Contained = true
	for range 2 {
		p := b.plan(t, Desired{Interfaces: []Interface{cakeAt("9mbit")}})
		for _, r := range p.Refusals {
			if !strings.Contains(r.Hint, "--network host") {
				t.Errorf("%+v", r)
			}
		}
		b.k.denied = errors.New("lacks it")
	}
}

// A kernel without cake is no obstacle for who does not want it.
func TestSupportNotNeeded(t *testing.T) {
	b := newBox(t, "eth1")
	b.k.missing = []tc.Kind{"cake", kindIFB, "ingress"}
	b.apply(t, Desired{Interfaces: []Interface{must(Parse(Spec{Name: "eth1", Kind: "fq_codel", Up: "9mbit"}))}})
}

// With force somebody else's queue goes, and clear brings it back; unless it had classes.
func TestForce(t *testing.T) {
	for _, classes := range []bool{false, true} {
		b := newBox(t, "eth1")
		theirs := tbf
		if classes {
			theirs = tc.Qdisc{Kind: "prio", Handle: 0x10 << 16, Raw: []byte{9}}
		}
		b.k.roots[b.k.index("eth1")] = theirs
		before := b.picture()
		d := Desired{Interfaces: []Interface{cakeAt("9mbit")}}
		p := Make(d, must(b.Observe("eth1")), true)
		if got := text(t, p); !strings.Contains(got, "~ dev eth1 root") || strings.Contains(got, "cannot be put back") != classes {
			t.Error(got)
		}
		if _, err := b.Apply(t.Context(), p, 0); err != nil {
			t.Fatal(err)
		}
		b.apply(t, Desired{Interfaces: []Interface{cakeAt("8mbit")}}) // what was before that is not what was before
		b.clear(t, "eth1")
		if back := b.picture() == before; back == classes {
			t.Errorf("classes %v: now\n%s", classes, b.picture())
		}
	}
}

func (b box) clear(t testing.TB, names ...string) Plan {
	t.Helper()
	p := MakeClear(names, must(b.Observe(names...)))
	if _, err := b.Apply(t.Context(), p, 0); err != nil {
		t.Fatal(err)
	}
	return p
}

// Several interfaces share one table: each keeps its marks until it is cleared.
func TestMarksOfSeveral(t *testing.T) {
	b := newBox(t, "eth1", "eth2", "eth3")
	for _, name := range []string{"eth2", "eth1"} {
		b.apply(t, Desired{Interfaces: []Interface{must(Parse(Spec{Name: name, Kind: "cake", Up: "9mbit"}))}, Classes: bulk})
	}
	if got := fmt.Sprint(b.f.has.Interfaces); got != "[eth1 eth2]" {
		t.Error(got)
	}
	b.clear(t, "eth2")
	if got := fmt.Sprint(b.f.has.Interfaces); got != "[eth1]" {
		t.Error(got)
	}
	b.clear(t, "eth1")
	if b.f.has != nil {
		t.Error("the table stays:", b.f.has)
	}
	if files := must(b.FS.ReadDir(b.Dir)); len(files) != 0 {
		t.Error("left behind:", files)
	}
	changes := b.k.changes
	if p := b.clear(t, "eth1"); !p.Equal || b.k.changes != changes {
		t.Error("a second clear does", text(t, p))
	}
}

// Kind none with classes is marks alone: the queue is nobody's affair here, however
// it looks. Without classes it is nothing, and clear takes the marks away.
func TestMarksAlone(t *testing.T) {
	b := newBox(t, "eth1", "eth2")
	none := must(Parse(Spec{Name: "eth1", Kind: "none"}))
	b.apply(t, Desired{Interfaces: []Interface{none, must(Parse(Spec{Name: "eth2", Kind: "cake", Up: "9mbit"}))}, Classes: bulk})
	if got := fmt.Sprint(b.f.has.Interfaces); got != "[eth1 eth2]" {
		t.Error(got)
	}
	b.clear(t, "eth2")
	d := Desired{Interfaces: []Interface{none}, Classes: bulk}
	b.k.roots[b.k.index("eth1")] = tbf
	before := b.picture()
	if p := b.plan(t, d); !p.Equal || len(p.records) > 0 || p.marksKnown {
		t.Error(text(t, p))
	}
	if s := must(b.Status("eth1")); s.Interfaces[0].Wanted == nil || s.Interfaces[0].Drift != nil || s.Marks.Drift != "" {
		t.Errorf("%+v", s)
	}
	b.f.has = nil // flushed
	for _, want := range []string{EventApplied, EventGood} {
		if e := b.reconcile(t.Context(), d)["eth1"]; e.What != want || b.picture() != before {
			t.Error(e, b.picture())
		}
	}
	b.clear(t, "eth1")
	if files := must(b.FS.ReadDir(b.Dir)); b.f.has != nil || len(files) != 0 || b.k.roots[b.k.index("eth1")].Kind != "tbf" {
		t.Error(b.picture(), files)
	}
	b.apply(t, d)
	if b.apply(t, Desired{Interfaces: []Interface{none}}); b.f.has != nil || must(b.recorded("eth1")) != nil {
		t.Error("without classes there is", b.picture())
	}
}

// Clear touches nothing that others put there since.
func TestClearLeavesOthers(t *testing.T) {
	b := newBox(t, "eth1")
	b.apply(t, Desired{Interfaces: []Interface{cakeAt("9mbit")}})
	b.k.roots[b.k.index("eth1")] = tbf
	changes := b.k.changes
	if p := b.clear(t, "eth1"); b.k.changes != changes || !strings.Contains(text(t, p), "stays") {
		t.Error(text(t, p))
	}
	if r := must(b.recorded("eth1")); r != nil {
		t.Error("the state file stays")
	}
}

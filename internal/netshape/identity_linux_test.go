package netshape

import (
	"os/exec"
	"strings"
	"testing"
	"time"
)

// sh runs commands as a hand would.
func sh(t *testing.T, commands ...string) {
	t.Helper()
	for _, c := range commands {
		if out, err := exec.Command("sh", "-c", c).CombinedOutput(); err != nil {
			lacks(t, c, err, string(out))
		}
	}
}

// On the real kernel: what was set up is taken back and cleared from a device that
// was renamed, to the queue and the ingress qdisc that a hand had made.
func TestRealRename(t *testing.T) {
	namespace(t)
	m := realBox(t)
	m.Rearguard = newBox(t).Rearguard
	sh(t, "tc qdisc add dev up0 root handle 42: tbf rate 5mbit burst 10kb limit 50kb", "tc qdisc add dev up0 ingress")
	before := ruleset(t)
	want := fifoAt(9e6)
	want.Down, want.Ingress = 50e6, fifoAt(50e6).Root
	d := Desired{Interfaces: []Interface{want}}
	rename := func(from, to string) {
		sh(t, "ip link set "+from+" down", "ip link set "+from+" name "+to, "ip link set "+to+" up")
	}
	done, err := m.Apply(t.Context(), Make(d, must(m.Observe("up0")), true), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	rename("up0", "wan9")
	if did, err := m.Rollback(t.Context(), done.ID); !did || err != nil {
		t.Error(did, err)
	}
	rename("wan9", "up0")
	if now := ruleset(t); now != before {
		t.Errorf("taken back it is\n%s\nand it was\n%s", now, before)
	}
	applyReal(t, m, d, true)
	rename("up0", "wan9")
	if _, err := m.Apply(t.Context(), MakeClear([]string{"wan9"}, must(m.Observe("wan9"))), 0); err != nil {
		t.Error(err)
	}
	rename("wan9", "up0")
	if now := ruleset(t); now != before {
		t.Errorf("cleared it is\n%s\nand it was\n%s", now, before)
	}
}

// A device that has the ifb's name and is none is told before any change, and so is
// an ingress qdisc with a shared block; what others lead to an ifb of our name stays.
func TestRealNoWayIn(t *testing.T) {
	namespace(t)
	m := realBox(t)
	want := fifoAt(9e6)
	want.Down, want.Ingress = 50e6, fifoAt(50e6).Root
	d := Desired{Interfaces: []Interface{want}}
	for _, way := range []struct{ make, undo, refused string }{
		{"ip link add ifb4up0 type veth peer name zz", "ip link del zz", "ifb4up0, by way of which what comes in would be led, is a veth and no ifb"},
		{"tc qdisc add dev up0 ingress_block 22 ingress", "tc qdisc del dev up0 ingress", "the shared block 22"},
		{"ip link add ifb4up0 type ifb; ip link set ifb4up0 up; tc qdisc add dev far0 ingress; tc filter add dev far0 parent ffff: protocol all prio 10 u32 match u32 0 0 action mirred egress redirect dev ifb4up0", "true", "to which filters of far0 lead"},
	} {
		sh(t, way.make)
		before := ruleset(t)
		if p := Make(d, must(m.Observe("up0")), false); len(p.Refusals) != 1 || !strings.Contains(p.Refusals[0].Text, way.refused) {
			t.Error(text(t, p))
		}
		applyReal(t, m, Desired{Interfaces: []Interface{fifoAt(9e6)}}, false)
		clearReal(t, m)
		if now := ruleset(t); now != before {
			t.Errorf("cleared it is\n%s\nand it was\n%s", now, before)
		}
		sh(t, way.undo)
	}
	before := ruleset(t)
	applyReal(t, m, d, true)
	clearReal(t, m)
	if now := ruleset(t); now != before {
		t.Errorf("after force it is\n%s\nand it was\n%s", now, before)
	}
}

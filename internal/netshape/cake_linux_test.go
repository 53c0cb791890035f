package netshape

import (
	"os/exec"
	"testing"
	"time"

	"trafficup/internal/tc"
)

// On a kernel with cake and fq_codel: all that a Spec can say is read back as set,
// the same once more is nothing to do, each kind follows each, and clear leaves
// what was there.
func TestRealQueues(t *testing.T) {
	namespace(t)
	m := realBox(t)
	m.Kernel = kernel{}
	if missing := must(m.Kernel.Missing([]tc.Kind{tc.KindCake, tc.KindFqCodel, tc.KindHTB, tc.KindIngress, kindIFB})); len(missing) > 0 {
		t.Skip("this kernel has no", missing) // nor can one be put there
	}
	before := must(m.Kernel.Qdiscs(must(m.Observe("up0")).Interfaces["up0"].Link.Index))
	overhead, negative := 44, -4
	for _, s := range []Spec{
		{Kind: "cake", Up: "9mbit"},
		{Kind: "cake", Up: "9mbit", Down: "100mbit"},
		{Kind: "cake"},
		{Kind: "cake", Up: "3mbit", Down: "25mbit", Profile: "geo", AckFilter: "aggressive"},
		{Kind: "cake", Up: "87.3% of 10mbit", Profile: "leo", AckFilter: "on", Diffserv: "diffserv3", Wash: true},
		{Kind: "fq_codel", Up: "9mbit", Down: "100mbit"},
		{Kind: "cake", Up: "1.5gbit", Profile: "lte", Diffserv: "besteffort", NAT: new(false), Overhead: &overhead, MPU: 64},
		{Kind: "fq_codel", Up: "900kbit", Diffserv: "besteffort", Profile: "geo"},
		{Kind: "fq_codel", Up: "8kbit", Profile: "lte"},
		{Kind: "cake", Up: "9mbit", RTT: 30*time.Millisecond + 7*time.Microsecond, Overhead: &negative, Diffserv: "diffserv8"},
		{Kind: "cake", Up: "9mbit", Diffserv: "precedence"},
		{Kind: "none"},
	} {
		s.Name = "up0"
		d := Desired{Interfaces: []Interface{must(Parse(s))}}
		applyReal(t, m, d, false)
		if p := applyReal(t, m, d, false); !p.Equal {
			t.Errorf("%+v:\n%s", s, text(t, p))
		}
	}
	typed := Desired{Interfaces: []Interface{must(Parse(Spec{Name: "up0", Kind: "cake", Up: "8.73mbit", Down: "90mbit", Profile: "geo", AckFilter: "on"}))}}
	for _, s := range Make(typed, must(m.Observe("up0")), false).Steps {
		for _, c := range s.Commands {
			if out, err := exec.Command("sh", "-ec", c).CombinedOutput(); err != nil {
				t.Fatalf("%s: %v: %s", c, err, out)
			}
		}
	}
	if p := applyReal(t, m, typed, false); !p.Equal {
		t.Errorf("after the commands that were printed:\n%s", text(t, p))
	}
	clearReal(t, m)
	after := must(m.Kernel.Qdiscs(must(m.Observe("up0")).Interfaces["up0"].Link.Index))
	if len(after) != len(before) || after[0].Kind != before[0].Kind || !after[0].Default {
		t.Errorf("%+v, it was %+v", after, before)
	}
}

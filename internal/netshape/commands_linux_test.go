package netshape

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
)

// The commands that are printed make what the plan makes: typed into a shell on an
// untouched interface they come to the same.
func TestCommandsAreTrue(t *testing.T) {
	namespace(t)
	m := realBox(t)
	want := fifoAt(9e6)
	want.Root.HTB.Tins = true
	p := Make(Desired{Interfaces: []Interface{want}, Classes: bulk}, must(m.Observe("up0")), false)
	for _, s := range p.Steps {
		script := strings.Join(s.Commands, "\n")
		if out, err := exec.Command("sh", "-ec", script).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s\n%s", err, out, script)
		}
	}
	typed := normal(ruleset(t))
	if err := netlink.LinkDel(must(netlink.LinkByName("up0"))); err != nil {
		t.Fatal(err)
	}
	if err := exec.Command("nft", "flush", "ruleset").Run(); err != nil {
		lacks(t, err)
	}
	namespace(t)
	applyReal(t, m, Desired{Interfaces: []Interface{want}, Classes: bulk}, false)
	if ours := normal(ruleset(t)); ours != typed {
		t.Errorf("typed:\n%s\nours:\n%s", typed, ours)
	}
}

var handles = regexp.MustCompile(` fh \S+ order \d+`)

// normal leaves out what differs by chance: addresses, bursts, handles of filters.
func normal(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if line, _, _ = strings.Cut(line, " burst "); !strings.Contains(line, "@") {
			lines = append(lines, handles.ReplaceAllString(strings.TrimSpace(line), ""))
		}
	}
	return strings.Join(lines, "\n")
}

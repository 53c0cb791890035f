package netshape

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"trafficup/internal/tc"
)

// namespace gives the test a network of its own with the pair up0 and far0, on the
// kernel that is there. It needs root.
func namespace(t *testing.T) {
	t.Helper()
	runtime.LockOSThread() // for good: the thread ends with the test
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		lacks(t, "root, for a network namespace:", err)
	}
	a := netlink.NewLinkAttrs()
	a.Name = "up0"
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: a, PeerName: "far0"}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"up0", "far0"} {
		if err := netlink.LinkSetUp(must(netlink.LinkByName(name))); err != nil {
			t.Fatal(err)
		}
	}
}

// lacks skips a test for want of something, which may not be where CI runs.
func lacks(t *testing.T, what ...any) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(append([]any{"this needs"}, what...)...)
	}
	t.Skip(append([]any{"this needs"}, what...)...)
}

// fifoAt is a shaper that every kernel with htb can make.
func fifoAt(rate uint64) Interface {
	s := tc.Shaper{Kind: tc.KindHTB, HTB: tc.HTB{Rate: rate, FIFO: true}}.Normal()
	return Interface{Name: "up0", Kind: KindFqCodel, Up: rate, Root: s}
}

// onlyHTB does without fq_codel, which fifoAt needs not.
type onlyHTB struct{ kernel }

func (k onlyHTB) Missing(kinds []tc.Kind) ([]tc.Kind, error) {
	missing, err := k.kernel.Missing(kinds)
	var list []tc.Kind
	for _, kind := range missing {
		if kind != tc.KindFqCodel {
			list = append(list, kind)
		}
	}
	return list, err
}

// realBox is this kernel with the state in a directory of the test.
func realBox(t *testing.T) *Machine {
	t.Helper()
	m, err := Local(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	m.Kernel = onlyHTB{}
	return m
}

// ruleset is all that nft and tc list.
func ruleset(t *testing.T) string {
	t.Helper()
	text := ""
	for _, c := range []string{"nft list ruleset", "tc qdisc show", "tc class show dev up0", "tc filter show dev up0", "tc filter show dev up0 ingress", "ip -br link"} {
		words := strings.Fields(c)
		out, err := exec.Command(words[0], words[1:]...).CombinedOutput()
		if err != nil {
			lacks(t, c, err, string(out))
		}
		text += string(out)
	}
	return counters.ReplaceAllString(text, "")
}

// counters go on whatever a test does, links say hello; and these come up in
// their own time. The parent of all filters for what comes in is the same, and
// told in one of two ways: that of who set the latest.
var counters = regexp.MustCompile(` (parent ffff:|direct_packets_stat \d+|packets \d+ bytes \d+| +(UP|DOWN|LOWERLAYERDOWN|UNKNOWN) .*)`)

func applyReal(t *testing.T, m *Machine, d Desired, force bool) Plan {
	t.Helper()
	o, err := m.Observe("up0")
	if err == nil {
		err = m.Collide(&o, d)
	}
	if err != nil {
		t.Fatal(err)
	}
	p := Make(d, o, force)
	if _, err := m.Apply(t.Context(), p, 0); err != nil {
		t.Fatal(err)
	}
	return p
}

// On the real kernel: set up, again without a change, changed in place, seen to
// drift, cleared to what it was.
func TestRealKernel(t *testing.T) {
	namespace(t)
	m := realBox(t)
	before := ruleset(t)
	want := fifoAt(9e6)
	want.Down, want.Ingress = 50e6, fifoAt(50e6).Root
	d := Desired{Interfaces: []Interface{want}, Classes: bulk}
	if p := applyReal(t, m, d, false); len(p.Steps) != 3 {
		t.Error(text(t, p))
	}
	stands := ruleset(t)
	if p := applyReal(t, m, d, false); !p.Equal || ruleset(t) != stands {
		t.Error(text(t, p))
	}
	if s := must(m.Status("up0")); s.Interfaces[0].Drift != nil || s.Marks.Drift != "" || s.Interfaces[0].Root.Rate != 9e6 || s.Interfaces[0].Ingress == nil {
		t.Errorf("%+v", s)
	}
	d.Interfaces[0].Up, d.Interfaces[0].Root = 8e6, fifoAt(8e6).Root
	if p := applyReal(t, m, d, false); !strings.Contains(text(t, p), "in place, counters stay: rate 9mbit, want 8mbit") {
		t.Error(text(t, p))
	}
	for _, c := range []string{"nft flush ruleset", "tc qdisc del dev up0 ingress"} {
		if out, err := exec.Command("sh", "-c", c).CombinedOutput(); err != nil {
			t.Fatal(c, err, string(out))
		}
	}
	s := must(m.Status("up0"))
	if s.Marks.Drift == "" || len(s.Interfaces[0].Drift) != 1 {
		t.Errorf("%+v", s)
	}
	applyReal(t, m, d, false)
	clearReal(t, m)
	if now := ruleset(t); now != before {
		t.Errorf("cleared it is\n%s\nand it was\n%s", now, before)
	}
	if p := clearReal(t, m); !p.Equal {
		t.Error(text(t, p))
	}
}

func clearReal(t *testing.T, m *Machine) Plan {
	t.Helper()
	p := MakeClear([]string{"up0"}, must(m.Observe("up0")))
	if _, err := m.Apply(t.Context(), p, 0); err != nil {
		t.Fatal(err)
	}
	return p
}

// A queue that a hand made is refused, replaced by force and put back by clear.
func TestRealForeign(t *testing.T) {
	namespace(t)
	m := realBox(t)
	if out, err := exec.Command("tc", "qdisc", "add", "dev", "up0", "root", "handle", "42:", "tbf", "rate", "5mbit", "burst", "10kb", "limit", "50kb").CombinedOutput(); err != nil {
		lacks(t, "tbf:", err, string(out))
	}
	before := ruleset(t)
	d := Desired{Interfaces: []Interface{fifoAt(9e6)}}
	if p := Make(d, must(m.Observe("up0")), false); len(p.Refusals) != 1 || p.Refusals[0].Code != CodeForeignQdisc || !strings.Contains(p.Refusals[0].Text, "tbf 42:") {
		t.Error(text(t, p))
	}
	applyReal(t, m, d, true)
	clearReal(t, m)
	if now := ruleset(t); now != before {
		t.Errorf("cleared it is\n%s\nand it was\n%s", now, before)
	}
}

// An ifb of our name that a hand made, with a queue and a filter, is refused; by
// force it is used, and clear leaves it where the hand's filter leads.
func TestRealStrangersIfb(t *testing.T) {
	namespace(t)
	m := realBox(t)
	for _, c := range []string{
		"ip link add ifb4up0 type ifb", "ip link set ifb4up0 up",
		"tc qdisc add dev ifb4up0 root handle 42: tbf rate 50mbit burst 10kb limit 50kb", "tc qdisc add dev up0 ingress",
		"tc filter add dev up0 parent ffff: protocol all prio 10 u32 match u32 0 0 action mirred egress redirect dev ifb4up0",
	} {
		if out, err := exec.Command("sh", "-c", c).CombinedOutput(); err != nil {
			lacks(t, c, err, string(out))
		}
	}
	before := ruleset(t)
	want := fifoAt(9e6)
	applyReal(t, m, Desired{Interfaces: []Interface{want}}, false)
	clearReal(t, m)
	if now := ruleset(t); now != before {
		t.Fatalf("cleared it is\n%s\nand it was\n%s", now, before)
	}
	want.Down, want.Ingress = 50e6, fifoAt(50e6).Root
	d := Desired{Interfaces: []Interface{want}}
	if p := Make(d, must(m.Observe("up0")), false); len(p.Refusals) != 1 || !strings.Contains(p.Refusals[0].Text, "ifb4up0, is tbf 42:") {
		t.Error(text(t, p))
	}
	p := applyReal(t, m, d, true)
	if again := applyReal(t, m, d, false); !again.Equal {
		t.Error(text(t, again))
	}
	if err := m.undo(transaction{Changes: []change{p.Steps[0].change, p.Steps[1].change}}); err != nil {
		t.Error(err)
	}
	if now := ruleset(t); now != before {
		t.Errorf("undone it is\n%s\nand it was\n%s", now, before)
	}
	applyReal(t, m, d, true)
	clearReal(t, m)
	if _, led, err := m.Kernel.Redirected(must(netlink.LinkByName("up0")).Attrs().Index, must(netlink.LinkByName("ifb4up0")).Attrs().Index); !led || err != nil {
		t.Errorf("what comes in goes nowhere: %v\n%s", err, ruleset(t))
	}
}

// What this kernel lacks is told before any change.
func TestRealSupport(t *testing.T) {
	namespace(t)
	m := realBox(t)
	m.Kernel = kernel{}
	before := ruleset(t)
	missing := must(m.Kernel.Missing([]tc.Kind{tc.KindCake, tc.KindHTB, tc.KindIngress, kindIFB}))
	for _, i := range []Interface{must(Parse(Spec{Name: "up0", Kind: "cake", Up: "9mbit"})), {Name: "nothere0", Kind: "cake", Root: cakeAt("9mbit").Root}} {
		p := Make(Desired{Interfaces: []Interface{i}}, must(m.Observe(i.Name)), false)
		if len(p.Refusals) == 0 && len(missing) > 0 {
			t.Error(i.Name, text(t, p))
		}
	}
	if ruleset(t) != before {
		t.Error("asking changes something")
	}
	if has := exec.Command("ip", "link", "add", "ifb77", "type", "ifb").Run() == nil; has != hasIFB() {
		t.Error("ifb:", has)
	}
}

// nobody is told what is missing.
func TestRealRights(t *testing.T) {
	namespace(t)
	if err := (kernel{}).Rights(); err != nil {
		t.Error("root:", err)
	}
	for name, as := range map[string]*syscall.SysProcAttr{
		"nobody":       {Credential: &syscall.Credential{Uid: 65534, Gid: 65534}},
		"CAP_NET_RAW":  {Credential: &syscall.Credential{Uid: 65534, Gid: 65534}, AmbientCaps: []uintptr{unix.CAP_NET_RAW}},
		"root of none": {Cloneflags: unix.CLONE_NEWUSER, UidMappings: []syscall.SysProcIDMap{{HostID: 65534, Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: 65534, Size: 1}}},
	} {
		cmd := exec.Command("/proc/self/exe", "netshape", "rights", "x")
		cmd.SysProcAttr = as
		out, err := cmd.CombinedOutput()
		if _, ok := errors.AsType[*exec.ExitError](err); !ok || !strings.Contains(string(out), "CAP_NET_ADMIN") {
			t.Error(name, err, string(out))
		}
	}
}

// A process that applies and is killed by -9 is outlived by the one that takes back.
func TestRealRollback(t *testing.T) {
	namespace(t)
	m := realBox(t)
	before := ruleset(t)
	cmd := exec.Command("/proc/self/exe", "netshape", "apply", m.Dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var errs strings.Builder
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "applied\n" {
		_ = cmd.Wait()
		t.Fatal(line, err, errs.String())
	}
	if s := must(m.Status("up0")); !s.Interfaces[0].Ours || s.Pending == nil {
		t.Errorf("%+v", s)
	}
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // with its group
	_, _ = io.Copy(io.Discard, out)
	_ = cmd.Wait()
	for range 100 {
		if ruleset(t) == before && must(m.Status("up0")).Pending == nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Errorf("after ten seconds it is\n%s", ruleset(t))
}

// A link that comes is told of, and the channel ends with stop.
func TestLinkEvents(t *testing.T) {
	namespace(t)
	stop := make(chan struct{})
	events, err := LinkEvents(stop)
	if err != nil {
		t.Fatal(err)
	}
	a := netlink.NewLinkAttrs()
	a.Name = "ifb88"
	if err := netlink.LinkAdd(&netlink.Ifb{LinkAttrs: a}); err != nil {
		lacks(t, "ifb:", err)
	}
	<-events
	close(stop)
	for range events {
	}
}

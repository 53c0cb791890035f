package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var at9 = []string{"--iface", "up0", "--kind", "fq_codel", "--up", "9mbit"}

func plus(base []string, more ...string) []string { return append(base[:len(base):len(base)], more...) }

// plan changes nothing; apply does what it says, once; clear undoes it.
func TestNetshapeThereAndBack(t *testing.T) {
	u := newUplink(t)
	before := u.stands()
	u.run(plus([]string{"plan"}, at9...)...).is(0, "+ dev up0 root", "htb rate 9mbit", "1 to add")
	if _, err := os.Stat(u.dir + "/up0.json"); err == nil || u.stands() != before {
		t.Errorf("plan changed something: %s", u.stands())
	}
	now := plus([]string{"apply", "--confirm-within", "0"}, at9...)
	u.run(now...).is(0, "1 to add", "done")
	c, err := net.DialTimeout("tcp", u.far, 5*time.Second)
	fatal(t, err)
	fatal(t, c.Close())
	time.Sleep(50 * time.Millisecond) // the last acks
	sent := func() (packets int) {
		_, err := fmt.Sscanf(strings.TrimSpace(u.sh("tc -s qdisc show dev up0 root | grep Sent")), "Sent %d bytes %d pkt", new(int), &packets)
		fatal(t, err)
		return packets
	}
	first := sent()
	for range 3 {
		u.run(now...).is(0, "nothing to do")
	}
	if again := sent(); first < 4 || again < first {
		t.Errorf("%d packets, then %d", first, again)
	}
	u.run("status").is(0, "up0\n  out      htb rate 9mbit", "Interactive", "applied  20")
	u.run(plus(now, "--up", "8mbit")...).is(0, "in place, counters stay: rate 9mbit, want 8mbit")
	u.run("status", "--json").is(0, `"message_type":"status"`, `"rate_bit_s":8000000`, `"present":true`)
	u.sh("tc qdisc del dev up0 root")
	u.run("status").is(0, "drift    root: gone")
	u.run(plus(now, "--json")...).is(0, `{"message_type":"plan","plan":{"steps":[{"op":"+"`, `{"message_type":"summary","steps":1,"confirmed":true}`)
	u.run("clear").is(0, "- dev up0 root", "done")
	if after := u.stands(); after != before {
		t.Errorf("it was\n%s\nand is\n%s", before, after)
	}
	u.run("status").is(0, "no interface is shaped")
	u.run("clear", "--iface", "up0").is(0, "nothing to do")
}

// Each refusal names the thing and the way out, and nothing is changed.
func TestNetshapeRefuses(t *testing.T) {
	u := newUplink(t)
	before := u.stands()
	for _, c := range []struct{ args, want string }{
		{"--iface up9 --kind fq_codel --up 9mbit", "there is no interface up9\ntrafficup: hint: there are: "},
		{"--iface $(touch_pwned) --kind fq_codel --up 9mbit", "$(touch_pwned)"},
		{"--iface up0;reboot --up 9mbit", "up0;reboot"},
		{"--iface ../up0 --up 9mbit", "../up0"},
		{"--iface a-name-too-long-by-far --up 9mbit", "a-name-too-long-by-far"},
		{"--iface up0 --kind fq_codel --up 9", "up0: up: "},
		{"--iface up0 --kind fq_codel --up -1mbit", "-1mbit"},
		{"--iface up0 --kind fq_codel --up 0", "up0: up: a rate of 0 lets nothing out: want 8kbit to 100gbit, or unlimited"},
		{"--iface up0 --up 0", "up0: up: a rate of 0 lets nothing out"},
		{"--iface up0 --up 0mbit", `up0: up: rate "0mbit" is out of bounds: want 8kbit to 100gbit`},
		{"--iface up0 --up 9 mbit", "mbit"},
		{"--iface up0 --up 9MB", `up0: up: "9MB" is no rate: want a number with kbit, mbit or gbit`},
		{"--iface up0 --kind fq_codel --up 9mbps", "9mbps"},
		{"--iface up0 --up 9mbit --rtt 50", `up0: rtt "50": has no unit: write 50ms, 50s or 50m`},
		{"--iface up0 --up 9mbit --rtt soon", `up0: rtt "soon": write a duration such as 500ms`},
		{"--iface up0 --up 9mbit --rtt 20s", "up0: rtt 20s: want 1ms to 10s"},
		{"--iface up0 --up 9mbit --rtt -1s", "up0: rtt -1s: want 1ms to 10s"},
		{"--iface up0 --up 9mbit --overhead 4x", `up0: overhead "4x": want a number of bytes`},
		{"--iface up0 --up 9mbit --overhead 999", "up0: overhead 999: want -64 to 256 bytes"},
		{"--iface up0 --up 9mbit --ack-filter maybe", `up0: ack-filter "maybe": want auto, on, off or aggressive`},
		{"--iface up0 --up 9mbit --kind fq_codel --overhead 44", "up0: overhead and ack-filter are for kind cake"},
		{"--iface up0 --kind fq_codel --up $(touch_pwned)", "$(touch_pwned)"},
		{"--iface up0 --kind fq_codel --up 90%", "90%"},
		{"--iface up0 --kind fq_codel", "up0: fq_codel needs a rate"},
		{"--iface up0", "up0: up is missing"},
		{"--iface up0 --kind caek --up 9mbit", `"caek" is no kind: want cake, fq_codel or none`},
		{"--iface up0 --kind none --up 9mbit", "kind none keeps no rate"},
		{"--iface up0 --up 9mbit --profile moon", `"moon" is no profile: want leo, geo or lte`},
		{"--iface up0 --up 9mbit --diffserv x", `diffserv "x"`},
		{"--kind fq_codel --up 9mbit", "no interface is named\ntrafficup: hint: give --iface NAME"},
		{"--iface up0 --kind fq_codel --up 9mbit --confirm-within -1s", `--confirm-within: netshape.confirm_within: "-1s": at least 0`},
		{"--iface up0 --kind fq_codel --up 9mbit --target 10.99.0.2:1", "refused: the targets do not answer before any change"},
		{"--iface up0 --kind fq_codel --up 9mbit --confirm-within 0 --target 10.99.0.2:443", "hint: give --confirm-within 60s"},
		{"--iface up0 --kind fq_codel --up 9mbit --target nonsense", "missing port"},
		{"--iface up0 --kind fq_codel --up 9mbit --target 10.99.0.1:1 --target 10.99.0.2:443", "refused: the way to 10.99.0.1:1 is not by up0: it would confirm anything"},
	} {
		s := u.run(append([]string{"apply"}, strings.Fields(c.args)...)...).is(exitUsage, c.want, "trafficup: error: ")
		if left, err := os.ReadDir(s.dir); err != nil || len(left) > 0 {
			t.Errorf("%s: made %v", c.args, left)
		}
	}
	if left, err := os.ReadDir(u.dir); err != nil || len(left) > 0 {
		t.Errorf("the state is %v", left)
	}
	if !strings.Contains(u.sh("tc qdisc add dev lo root cake 2>&1 || true"), "unknown") {
		u.sh("tc qdisc del dev lo root 2>/dev/null || true") // a kernel with cake
	} else {
		u.run("plan", "--iface", "up0", "--up", "9mbit").is(exitUsage, "this kernel has no sch_cake", "--kind fq_codel")
	}
	u.run("confirm").is(exitUsage, "nothing waits")
	u.run("rollback", "abcdefgh").is(exitUsage, "nothing of the id abcdefgh waits")
	u.run("clear").is(0, "nothing to do")
	u.run("status", "--iface", "up9").is(exitUsage, "there is no interface up9")
	u.run("watch").is(exitUsage, "nothing was confirmed")
	if after := u.stands(); after != before {
		t.Errorf("it was\n%s\nand is\n%s", before, after)
	}
}

// State files that are damaged are named with their path, and keep nobody from looking
// or from clearing.
func TestNetshapeDamagedState(t *testing.T) {
	u := newUplink(t)
	u.run("apply", "--iface", "up0", "--kind", "fq_codel", "--up", "9mbit", "--confirm-within", "0").is(0)
	for _, name := range []string{"up0.json", "rollback:last.json"} {
		if err := os.WriteFile(filepath.Join(u.dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	u.run("status").is(0, "up0", "trafficup: warning: "+filepath.Join(u.dir, "up0.json")+" is damaged")
	u.run("clear").is(0, "up0.json.damaged")
	if left := u.sh("tc qdisc show dev up0"); strings.Contains(left, "7a51") {
		t.Error(left)
	}
}

// What others set up stays, unless it is said that it goes; clear brings it back.
func TestNetshapeForeignQueue(t *testing.T) {
	u := newUplink(t)
	u.sh("tc qdisc add dev up0 root tbf rate 5mbit burst 10k latency 50ms")
	before := u.stands()
	now := plus([]string{"apply", "--confirm-within", "0"}, at9...)
	u.run(now...).is(exitUsage, "the root of up0 is tbf", "--force")
	u.run(plus([]string{"plan", "--json"}, at9...)...).is(exitUsage, `"code":"foreign_qdisc"`, `"message_type":"exit_error"`)
	u.run("status", "--iface", "up0").is(0, "rate 5mbit burst 10240 limit ")
	u.run(plus(now, "--force")...).is(0)
	s := u.run("clear").is(0)
	if after := u.stands(); after != before {
		t.Errorf("it was\n%s\nand is\n%s", before, after)
	}
	// Its command can be pasted.
	_, command, _ := strings.Cut(s.stdout, "# ")
	command, _, _ = strings.Cut(command, "\n")
	u.sh("tc qdisc del dev up0 root; " + command)
	if after := u.stands(); after != before {
		t.Errorf("%s: it was\n%s\nand is\n%s", command, before, after)
	}
}

// Without rights nothing is begun, and what can be read is shown: not as nobody, not
// with a right that is another one, not as root of a container that was not given it.
func TestNetshapeWithoutRights(t *testing.T) {
	u := newUplink(t)
	before := u.stands()
	for _, as := range []struct {
		name, hint string
		attr       syscall.SysProcAttr
	}{
		{"nobody", "root", syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}},
		{"CAP_NET_RAW", "root", syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}, AmbientCaps: []uintptr{unix.CAP_NET_RAW}}},
		{"rootless", "--network host --cap-add NET_ADMIN", syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{HostID: 65534, Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: 65534, Size: 1}},
		}},
	} {
		t.Log(as.name)
		u.withoutRights(as.hint, func(cmd *exec.Cmd) { cmd.SysProcAttr = &as.attr })
	}
	program, err := os.Executable()
	fatal(t, err)
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		needs(t, "setpriv")
	}
	u.withoutRights("root", func(cmd *exec.Cmd) { // of a container, by default
		cmd.Args = append([]string{"setpriv", "--bounding-set=-net_admin", "--inh-caps=-net_admin", program}, cmd.Args[1:]...)
		cmd.Path = setpriv
	})
	if _, err := os.Stat("/nonexistent"); err == nil || u.stands() != before {
		t.Error("something changed")
	}
}

// withoutRights has every verb say what is missing, as whom as makes of it.
func (u *uplinkBench) withoutRights(hint string, as func(*exec.Cmd)) {
	u.t.Helper()
	run := func(verb string, args ...string) shaping {
		cmd := u.command(append([]string{verb, "--state-dir", "/nonexistent/state"}, args...)...)
		cmd.Dir, cmd.Env = "/", []string{"HOME=/nonexistent"}
		as(cmd)
		return u.end(cmd)
	}
	for _, verb := range []string{"plan", "apply"} {
		run(verb, at9...).is(exitUsage, "CAP_NET_ADMIN", hint)
	}
	run("clear", "--iface", "up0").is(exitUsage, "CAP_NET_ADMIN", hint)
	run("confirm").is(exitUsage, "CAP_NET_ADMIN")
	run("watch", at9...).is(exitUsage, "CAP_NET_ADMIN")
	run("status", "--iface", "up0").is(0, "noqueue", "marks    cannot be read")
}

// CAP_NET_ADMIN and a state directory are enough, also for the process that takes
// everything back.
func TestNetshapeWithOneCapability(t *testing.T) {
	u := newUplink(t)
	before := u.stands()
	dir, err := os.MkdirTemp("", "netshape") // below no directory of root's alone
	fatal(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	fatal(t, os.Chown(dir, 65534, 65534))
	u.sh("cp /proc/" + strconv.Itoa(os.Getpid()) + "/exe " + dir + "/program") // this one's directory is root's alone
	cmd := u.command(plus([]string{"apply", "--confirm-within", "1s", "--state-dir", dir}, at9...)...)
	cmd.Path, cmd.Dir, cmd.Env = dir+"/program", "/", []string{"HOME=/nonexistent"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}, AmbientCaps: []uintptr{unix.CAP_NET_ADMIN}}
	u.end(cmd).is(0, "applied; all is taken back at")
	u.soon("what was there before", func() bool { return u.stands() == before })
}

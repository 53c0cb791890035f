package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

var idOf = regexp.MustCompile(`netshape confirm ([a-z2-7]{8}) --state-dir`)

// apply applies with args and returns the id of what waits.
func (u *uplinkBench) apply(args ...string) (id string) {
	u.t.Helper()
	s := u.run(append([]string{"apply"}, args...)...).is(0, "applied; all is taken back at ")
	m := idOf.FindStringSubmatch(s.stdout)
	if m == nil {
		u.t.Fatal("no id in", s.stdout)
	}
	return m[1]
}

// Confirmed it stays, and is set up again after all was lost; taken back by hand
// or by nobody's word it does not.
func TestNetshapeConfirm(t *testing.T) {
	u := newUplink(t)
	before := u.stands()
	id := u.apply(plus(at9, "--confirm-within", "60s")...)
	u.run("status").is(0, "unless: trafficup netshape confirm "+id)
	u.run(plus([]string{"apply"}, "--iface", "up0", "--kind", "fq_codel", "--up", "8mbit")...).is(exitUsage, "waits for its confirmation", "trafficup netshape rollback "+id)
	u.run("confirm", "wrongone").is(exitUsage, "nothing of the id wrongone waits")
	u.run("rollback").is(0, "taken back: "+id)
	if u.stands() != before {
		t.Error(u.stands())
	}
	u.run("confirm", id).is(exitUsage, "nothing of the id "+id+" waits")
	if _, err := os.Stat(filepath.Join(u.dir, "kept", "desired:kept.json")); err == nil {
		t.Error("something is kept that nobody confirmed")
	}
	id = u.apply(at9...)
	u.run("confirm").is(0, "confirmed: "+id)
	stands := u.stands()
	u.run(plus([]string{"apply"}, at9...)...).is(0, "nothing to do")
	u.apply("--iface", "up0", "--kind", "fq_codel", "--up", "8mbit", "--confirm-within", "1s")
	u.soon("the rate before", func() bool { return u.stands() == stands })
	u.run("status").is(0, "rolled back 2 times")
	u.run("clear").is(0)
	if u.stands() != before {
		t.Error(u.stands())
	}
}

// Targets that answer as before confirm; those that a rate drowns do not.
func TestNetshapeTargets(t *testing.T) {
	u := newUplink(t)
	u.targets("fq_codel", "htb")
}

// targets applies kind, whose queue is a root.
func (u *uplinkBench) targets(kind, root string) {
	t := u.t
	before := u.stands()
	drown := []string{"apply", "--iface", "up0", "--kind", kind, "--up", "8kbit", "--confirm-within", "4s", "--target", u.far}
	u.run(drown...).is(exitFailed, "not confirmed: 0 of 1 targets answer", "all was taken back")
	if u.stands() != before {
		t.Error(u.stands())
	}
	u.run("apply", "--iface", "up0", "--kind", kind, "--up", "9mbit", "--target", u.far).is(0, "the targets answer as before, confirmed")
	if q := u.status()["up0"].Root; string(q.Kind) != root || q.Rate != 9e6 {
		t.Errorf("%+v", q)
	}
}

// The targets of the configuration are for all uplinks: those that are not behind the
// one that changes are not asked, and where none is left it is said how to go on.
func TestNetshapeTargetsOfOthers(t *testing.T) {
	u := newUplink(t)
	u.sh("ip link add wwan0 type veth peer name tower0; ip link set wwan0 up; ip link set tower0 up; ip addr add 10.98.0.1/24 dev wwan0")
	file := filepath.Join(t.TempDir(), "trafficup.yaml")
	write := func(targets string) {
		fatal(t, os.WriteFile(file, []byte("netshape: {interfaces: [{name: up0, kind: fq_codel, up: 9mbit}, {name: wwan0, kind: fq_codel, up: 4mbit}], targets: ["+targets+"]}\n"), 0o600))
	}
	write(fmt.Sprintf("%q, %q", "10.98.0.2:443", u.far))
	u.run("apply", "--config", file, "--iface", "up0").is(0, "the targets answer as before, confirmed")
	u.run("apply", "--config", file, "--iface", "wwan0", "--target", u.far).is(exitUsage, "it would confirm anything")
	write(fmt.Sprintf("%q", u.far))
	u.run("apply", "--config", file, "--iface", "wwan0").is(exitUsage, "refused: the way to "+u.far+" is not by wwan0", "--set netshape.targets=[]")
	u.run("apply", "--config", file, "--iface", "wwan0", "--set", "netshape.targets=[]").is(0)
	u.run("rollback").is(0)
	u.run("clear").is(0)
	u.run("apply", "--config", file).is(0, "no target is behind wwan0", "the targets answer as before, confirmed")
}

// A signal takes back what is not confirmed yet, at once.
func TestNetshapeApplyStopped(t *testing.T) {
	u := newUplink(t)
	before := u.stands()
	p := u.start("apply", "--iface", "up0", "--kind", "fq_codel", "--up", "8kbit", "--confirm-within", "60s", "--target", u.far)
	u.soon("the rate", func() bool { return u.stands() != before })
	u.soon("the wait for confirmation", func() bool { return strings.Contains(p.said(), "unless the targets answer") })
	fatal(t, p.cmd.Process.Signal(syscall.SIGTERM))
	if err := p.cmd.Wait(); p.cmd.ProcessState.ExitCode() != 143 {
		t.Error(err, p.said())
	}
	if u.stands() != before {
		t.Error(u.stands())
	}
}

// A kill -9 of all that belongs to the apply leaves the process that takes back.
func TestNetshapeApplyKilled(t *testing.T) {
	newUplink(t).killed("fq_codel")
}

func (u *uplinkBench) killed(kind string) {
	t, before := u.t, u.stands()
	p := u.start("apply", "--iface", "up0", "--kind", kind, "--up", "8kbit", "--confirm-within", "3s", "--target", u.far)
	u.soon("the rate", func() bool { return strings.Contains(u.stands(), "8Kbit") })
	fatal(t, syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL))
	_ = p.cmd.Wait()
	begin := time.Now()
	u.soon("what was there before", func() bool { return u.stands() == before })
	t.Logf("taken back %s after the kill", time.Since(begin).Round(100*time.Millisecond))
	u.run("status").is(0, "rolled back 1 times")
}

// The process that would take back ends soon after the confirmation, also if it
// starts later than that, and leaves nothing behind in the directory of the state.
func TestNetshapeRearguardEnds(t *testing.T) {
	u := newUplink(t)
	id := u.apply(plus(at9, "--confirm-within", "60s")...)
	if !runs(id) {
		t.Error("nobody would take it back")
	}
	u.run("confirm", id).is(0)
	u.run("clear").is(0)
	u.soon("the end of the other process", func() bool { return !runs(id) })
	left, err := os.ReadDir(u.dir)
	fatal(t, err)
	if len(left) != 2 || left[0].Name() != "apply:lock" || left[1].Name() != "kept" {
		t.Errorf("left behind: %v", left)
	}
	for _, id := range []string{"tooearly", "dirgone2"} { // neither waits any more when its process comes
		p := u.start("rollback", id, "--after", "1h")
		u.soon("the end of a process for nothing", func() bool { return !runs(id) })
		if err := p.cmd.Wait(); err != nil || p.said() != "" {
			t.Error(id, err, p.said())
		}
		if _, err := os.Stat(u.dir); id == "dirgone2" && err == nil {
			t.Error("the directory of the state is there again")
		}
		fatal(t, os.RemoveAll(u.dir))
	}
}

// runs reports whether there is a process with word in its command line.
func runs(word string) bool {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline") // only a bad pattern is an error
	return slices.ContainsFunc(files, func(f string) bool {
		line, _ := os.ReadFile(f) // one that ended is none
		return bytes.Contains(line, []byte(word))
	})
}

// running is a command that goes on, in a process group of its own.
type running struct {
	cmd *exec.Cmd
	out string
}

func (u *uplinkBench) start(args ...string) *running {
	u.t.Helper()
	p := &running{u.command(append(args, "--state-dir", u.dir)...), filepath.Join(u.t.TempDir(), "out")}
	out, err := os.Create(p.out)
	fatal(u.t, err)
	defer func() { _ = out.Close() }()
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	fatal(u.t, p.cmd.Start())
	u.t.Cleanup(func() { _ = p.cmd.Process.Kill() }) // one that ended cannot be hurt
	return p
}

func (p *running) said() string {
	text, _ := os.ReadFile(p.out)
	return string(text)
}

// watch sets up what was confirmed, says that it is ready, brings back what goes
// away, and leaves it on a signal.
func TestNetshapeWatch(t *testing.T) {
	u := newUplink(t)
	u.apply(at9...)
	u.run("confirm").is(0)
	u.sh("tc qdisc del dev up0 root")
	socket := filepath.Join(t.TempDir(), "notify")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	fatal(t, err)
	defer func() { _ = manager.Close() }()
	t.Setenv("NOTIFY_SOCKET", socket)
	p := u.start("watch")
	state := make([]byte, 100)
	fatal(t, manager.SetReadDeadline(time.Now().Add(20*time.Second)))
	n, err := manager.Read(state)
	fatal(t, err)
	if string(state[:n]) != "READY=1" {
		t.Errorf("told %q", state[:n])
	}
	shaped := func() bool { return strings.Contains(u.stands(), "htb 7a51:") }
	u.soon("what was confirmed", shaped)
	u.soon("word of it", func() bool { return strings.Contains(p.said(), "up0: applied: set up again: root: gone") })
	u.sh("ip link del up0; ip link add up0 type veth peer name far1; ip link set up0 up") // as a modem does
	u.soon("it on the interface that came back", shaped)
	fatal(t, p.cmd.Process.Signal(syscall.SIGTERM))
	if err := p.cmd.Wait(); err != nil || !shaped() {
		t.Error(err, p.said())
	}
}

// A configuration is enough; its classes are marked, and what a flush took away
// is told and set up again.
func TestNetshapeByConfiguration(t *testing.T) {
	u := newUplink(t)
	before := u.stands()
	file := filepath.Join(t.TempDir(), "trafficup.yaml")
	text := `netshape:
  interfaces: [{name: up0, kind: fq_codel, up: 90% of 10mbit, down: 50mbit}]
  classes: [{name: bulk, match: {user: root, ports: [443]}}, {name: interactive, dscp: af21, match: {ports: [22]}}]
`
	fatal(t, os.WriteFile(file, []byte(text), 0o600))
	now := []string{"apply", "--config", file, "--confirm-within", "0"}
	u.run(now...).is(0, "+ dev up0 root: htb rate 9mbit", "+ dev up0 ingress", "+ nft table inet trafficup: bulk dscp 1, interactive dscp 18 on up0")
	u.run(now...).is(0, "nothing to do")
	u.run("status", "--config", file).is(0, "  in ", "marks    bulk  ", "marks    interactive  ")
	u.sh("nft flush ruleset")
	u.run("status").is(0, "marks    drift: the table is gone")
	u.run(now...).is(0, "1 to add")
	u.run(append(now, "--iface", "up0", "--kind", "none")...).is(0, "- dev up0 root", "- dev up0 ingress", "shapes nothing: that has no effect on the delay", "2 to remove")
	if s := u.run("status").is(0, "marks    bulk  ", "noqueue"); strings.Contains(s.stdout, "drift") {
		t.Error(s.stdout)
	}
	u.run("clear").is(0, "- nft table")
	if after := u.stands(); after != before {
		t.Errorf("it was\n%s\nand is\n%s", before, after)
	}
}

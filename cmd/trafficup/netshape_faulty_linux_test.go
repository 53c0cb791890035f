package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// write makes a file of the test's own, in a directory that everybody gets into.
func (u *uplinkBench) write(name, text string, mode os.FileMode) string {
	u.t.Helper()
	dir, err := os.MkdirTemp("", "netshape")
	fatal(u.t, err)
	u.t.Cleanup(func() { _ = os.RemoveAll(dir) })
	fatal(u.t, os.Chmod(dir, 0o755))
	file := filepath.Join(dir, name)
	fatal(u.t, os.WriteFile(file, []byte(text), mode))
	return file
}

// nobody runs a command of the program, not of netshape alone, without any rights.
func (u *uplinkBench) nobody(args ...string) shaping {
	u.t.Helper()
	cmd := u.command()
	cmd.Args = append(cmd.Args[:1:1], args...)
	cmd.Dir, cmd.Env = "/", []string{"HOME=/nonexistent"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	return u.end(cmd)
}

// A configuration with mistakes stops none of the commands that need none: what was
// shaped is seen, confirmed and taken away all the same. Mistakes of the command line
// stop them, and all others are stopped.
func TestNetshapeWithFaultyConfiguration(t *testing.T) {
	u := newUplink(t)
	before := u.stands()
	faulty := u.write("trafficup.yaml", "netshape: {interfaces: [{name: up0, kind: non}]}\n", 0o644)
	const warns = "warning: configuration: "
	u.run(plus([]string{"apply", "--confirm-within", "1h"}, at9...)...).is(0)
	u.run("status", "--config", faulty).is(0, warns, "going on without it", "up0\n  out      htb rate 9mbit", "waiting  taken back at ")
	u.run("status", "--json", "--config", faulty).is(0, `{"message_type":"warning","message":"configuration: `, `{"message_type":"status"`)
	u.run("status", "--config", u.dir+"/none.yaml").is(0, warns)
	for _, verb := range []string{"plan", "apply", "watch"} {
		u.run(verb, "--config", faulty).is(exitUsage, `"non": one of cake, fq_codel, none`)
	}
	u.run("clear", "--config", faulty, "--set", "netshape.mask=x").is(exitUsage, "netshape.mask")
	u.run("confirm").is(0)
	u.run("clear", "--config", faulty).is(0, warns, "- dev up0 root", "done")
	if after := u.stands(); after != before {
		t.Errorf("it was\n%s\nand is\n%s", before, after)
	}
	for range 2 { // with or without a configuration there is nothing to do, which is well
		u.run("clear").is(0, "nothing to do")
		u.run("clear", "--config", faulty).is(0, "nothing to do")
	}
}

// Who may read neither the configuration nor the state is told so, and how to.
func TestNetshapeUnreadable(t *testing.T) {
	u := newUplink(t)
	file := u.write("trafficup.yaml", "netshape: {interfaces: [{name: up0, up: 9mbit, kind: fq_codel}]}\n", 0o600)
	u.run(plus([]string{"apply", "--confirm-within", "0"}, at9...)...).is(0)
	s := u.nobody("netshape", "status", "--iface", "up0", "--state-dir", u.dir, "--config", file)
	s.is(0, "warning: configuration: ", "htb rate 9mbit", "state    not known what was applied", "permission denied", "marks    cannot be read: that needs the capability CAP_NET_ADMIN")
	if strings.Contains(s.stdout, "nothing by this program") || strings.Contains(s.stdout, "changing queues") {
		t.Error(s.stdout)
	}
	hint := `hint: run it with sudo, or let your group read it: sudo chgrp "$(id -gn)" ` + file + " && sudo chmod 640 " + file
	u.nobody("netshape", "plan", "--config", file).is(exitUsage, "permission denied", hint)
	u.nobody("upload", "--config", file, "none").is(exitUsage, hint)
	fatal(t, os.Chmod(filepath.Dir(file), 0o700))
	u.nobody("config", "check", file).is(exitUsage, "sudo chmod 750 "+filepath.Dir(file))
}

// Where nothing can be kept for the next boot, apply says so first, confirm says what
// stands, and clear goes on.
func TestNetshapeCannotKeep(t *testing.T) {
	u := newUplink(t)
	before := u.stands()
	now := plus([]string{"apply", "--confirm-within", "1h"}, at9...)
	u.sh("ln -s /proc/none " + u.dir + "/kept") // where there can be nothing
	u.run(now...).is(exitFailed, "nothing was changed: what is confirmed could not be kept", "hint: make "+u.dir+"/kept writable, or give --state-dir")
	if after := u.stands(); after != before {
		t.Errorf("it was\n%s\nand is\n%s", before, after)
	}
	u.sh("rm " + u.dir + "/kept")
	u.run(now...).is(0)
	u.sh("rm -r " + u.dir + "/kept; ln -s /proc/none " + u.dir + "/kept")
	u.run("confirm").is(exitFailed, "it is done and stands, nothing is taken back; but it is not kept for the next boot", "hint: make "+u.dir+"/kept writable")
	if s := u.run("status").is(0, "htb rate 9mbit"); strings.Contains(s.stdout, "waiting") && strings.Contains(s.stdout, "confirm") {
		t.Error(s.stdout)
	}
	u.run("clear").is(0, "- dev up0 root", "done") // of which nothing was kept
	if after := u.stands(); after != before {
		t.Errorf("it was\n%s\nand is\n%s", before, after)
	}
	// The targets confirm as a person does.
	u.sh("rm " + u.dir + "/kept")
	cmd := u.command(plus(now, "--target", u.far, "--state-dir", u.dir)...)
	var said strings.Builder
	cmd.Stderr = &said
	fatal(t, cmd.Start())
	u.soon("a change", func() bool { _, err := os.Stat(u.dir + "/apply:pending.json"); return err == nil })
	u.sh("rm -r " + u.dir + "/kept; ln -s /proc/none " + u.dir + "/kept")
	err := cmd.Wait()
	if cmd.ProcessState.ExitCode() != exitFailed || !strings.Contains(said.String(), "it is done and stands") {
		t.Errorf("%v: %s", err, said.String())
	}
}

// Of two uplinks of a configuration one is not there: the hint says how to have the other.
func TestNetshapeOneOfTwo(t *testing.T) {
	u := newUplink(t)
	file := u.write("trafficup.yaml", "netshape: {interfaces: [{name: up0, up: 9mbit, kind: fq_codel}, {name: wwan9, up: 4mbit, kind: fq_codel}]}\n", 0o644)
	u.run("plan", "--config", file).is(exitUsage, "there is no interface wwan9", "for the others alone: --iface up0", "refused; nothing changes")
	u.run("plan", "--config", file, "--iface", "up0").is(0, "1 to add")
}

// The edge's check asks the kernel as plan does, and misses no URL where there is
// nothing to upload.
func TestDoctorOfAnEdge(t *testing.T) {
	u := newUplink(t)
	file := u.write("trafficup.yaml", "netshape:\n  interfaces: [{name: up0, kind: none}]\n  classes: [{name: bulk, match: {ports: [443]}}]\n", 0o644)
	doctor := func(file string) *exec.Cmd {
		cmd := u.command()
		cmd.Args = append(cmd.Args[:1:1], "doctor", "--edge", "--config", file)
		return cmd
	}
	u.end(doctor(file)).is(0, "paths                none: this configuration is for the edge", "CAP_NET_ADMIN is in effect", "nf_tables is there", "ok       plan                 netshape: ", "kind none marks the classes")
	absent := u.write("absent.yaml", "netshape: {interfaces: [{name: wwan9, kind: none}]}\n", 0o644)
	u.end(doctor(absent)).is(exitFailed, "failed   plan                 refused: there is no interface wwan9")
	s := u.nobody("doctor", "--edge", "--config", file)
	s.is(exitFailed, "failed   capability           CAP_NET_ADMIN is not in effect")
	if strings.Contains(s.stdout, "CAP_NET_RAW is") || strings.Contains(s.stdout, "no URL") {
		t.Error(s.stdout)
	}
}

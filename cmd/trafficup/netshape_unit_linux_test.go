package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// systemd understands the unit, grants it little, and the program understands what
// it is started with.
func TestNetshapeUnit(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		needs(t, "systemd-analyze (Debian: systemd)")
	}
	const name = "trafficup-netshape@.service"
	unit, err := os.ReadFile(filepath.Join("../../packaging/systemd", name))
	fatal(t, err)
	_, rest, _ := strings.Cut(string(unit), "\nExecStart=/usr/bin/trafficup netshape ")
	line, _, _ := strings.Cut(rest, "\n")
	args := strings.Fields(strings.ReplaceAll(line, "%I", "eth1"))
	u := uplinkBench{t: t}
	u.end(u.command(append(args, "--help")...)).is(0, "--metrics-listen")
	if strings.Join(args, " ") != "watch --config /etc/trafficup/trafficup.yaml --iface eth1" {
		t.Error(line)
	}
	file := filepath.Join(t.TempDir(), name)
	fatal(t, os.WriteFile(file, []byte(strings.Replace(string(unit), "/usr/bin/trafficup", "/bin/true", 1)), 0o600)) // which is there
	if out, err := exec.Command(analyze, "verify", file).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := exec.Command(analyze, "security", "--offline=true", "--no-pager", "--threshold=20", file).CombinedOutput(); err != nil {
		t.Errorf("exposed to more than 2.0: %v\n%s", err, out)
	}
}

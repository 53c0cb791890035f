package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// systemd understands the units, grants them little, and the program understands what
// it is started with.
func TestUnits(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		needs(t, "systemd-analyze (Debian: systemd)")
	}
	for name, wants := range map[string]struct{ starts, flag string }{
		"trafficup-netshape@.service": {"netshape watch --config /etc/trafficup/trafficup.yaml --iface eth1", "--metrics-listen"},
		"trafficup-failover.service":  {"failover run --config /etc/trafficup/trafficup.yaml", "--state-dir"},
	} {
		unit, err := os.ReadFile(filepath.Join("../../packaging/systemd", name))
		fatal(t, err)
		_, rest, _ := strings.Cut(string(unit), "\nExecStart=/usr/bin/trafficup ")
		line, _, _ := strings.Cut(rest, "\n")
		args := strings.Fields(strings.ReplaceAll(line, "%I", "eth1"))
		u := uplinkBench{t: t}
		cmd := u.command(append(args[1:], "--help")...)
		cmd.Args[1] = args[0] // in place of netshape
		u.end(cmd).is(0, wants.flag)
		if strings.Join(args, " ") != wants.starts {
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
}

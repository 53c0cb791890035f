package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// make install puts the program where its units start it.
func TestInstall(t *testing.T) {
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("this needs make")
	}
	dir := t.TempDir()
	for _, prefix := range []string{"/usr/local", "/usr"} {
		args := []string{"-s", "-C", "../..", "install", "BIN=" + os.Args[0], "DESTDIR=" + dir}
		if prefix != "/usr/local" { // which is usual
			args = append(args, "PREFIX="+prefix)
		}
		cmd := exec.Command("make", args...)
		cmd.Env = append(os.Environ(), "MAKEFLAGS=")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if info, err := os.Stat(dir + prefix + "/bin/trafficup"); err != nil || info.Mode().Perm() != 0o755 {
			t.Error(info, err)
		}
		for name, starts := range map[string]string{"trafficup-netshape@.service": "netshape watch", "trafficup-failover.service": "failover run"} {
			unit, err := os.ReadFile(filepath.Join(dir, prefix, "lib/systemd/system", name))
			if err != nil || !strings.Contains(string(unit), "\nExecStart="+prefix+"/bin/trafficup "+starts+" ") {
				t.Errorf("%v\n%s", err, unit)
			}
		}
	}
}

//go:build linux

package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"trafficup/test/linklab"
)

// playShape runs tests of the program bin, beside which they lie. Nothing may be
// missing here.
func playShape(ctx context.Context, bin string, s linklab.Shape) linklab.ShapeRun {
	r := linklab.ShapeRun{Name: s.Name}
	err := command("modprobe", "-d", "/run/mod", "-a", "sch_htb", "sch_tbf", "sch_ingress", "cls_u32", "act_mirred")
	if err == nil { // the kernel would look for others, which takes long, in vain
		err = os.WriteFile("/proc/sys/kernel/modprobe", []byte("\n"), 0)
	}
	if err != nil {
		r.Error = err.Error()
		return r
	}
	cmd := exec.CommandContext(ctx, filepath.Join(filepath.Dir(bin), s.Tests()), "-test.v", "-test.run="+s.Run, "-test.skip="+s.Skip)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGQUIT) } // which makes them say where they are
	cmd.WaitDelay = 5 * time.Second
	cmd.Dir = "/run"
	cmd.Env = append(os.Environ(), "CI=1", "TMPDIR=/run", "TRAFFICUP_LINKLAB="+bin)
	out, err := cmd.CombinedOutput()
	r.Output = string(out)
	if err != nil {
		r.Error = err.Error()
	}
	return r
}

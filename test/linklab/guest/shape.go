//go:build linux

package main

import (
	"context"
	"os"
	"os/exec"
	"syscall"
	"time"

	"trafficup/test/linklab"
)

// playShape runs tests, compiled to the file bin. Nothing may be missing here.
func playShape(ctx context.Context, bin string, s linklab.Shape) linklab.ShapeRun {
	r := linklab.ShapeRun{Name: s.Name}
	if err := command("modprobe", "-d", "/run/mod", "-a", "sch_htb", "sch_tbf", "sch_ingress", "cls_u32", "act_mirred"); err != nil {
		r.Error = err.Error()
		return r
	}
	cmd := exec.CommandContext(ctx, bin, "-test.v", "-test.run="+s.Run, "-test.skip="+s.Skip)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGQUIT) } // which makes them say where they are
	cmd.WaitDelay = 5 * time.Second
	cmd.Dir = "/run"
	cmd.Env = append(os.Environ(), "CI=1", "TRAFFICUP_LINKLAB=1")
	out, err := cmd.CombinedOutput()
	r.Output = string(out)
	if err != nil {
		r.Error = err.Error()
	}
	return r
}

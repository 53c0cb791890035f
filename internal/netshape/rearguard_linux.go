package netshape

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"
)

// rearguard starts this program once more, with args, out of reach of what may
// happen to this process: as a unit of its own where systemd runs, which would
// else end it with our session or service; or in a session of its own, with no
// terminal to hang up.
func rearguard(args []string) func(context.Context, string, time.Duration) error {
	return func(ctx context.Context, id string, after time.Duration) error {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		words := slices.Clone(args)
		for i, w := range words { // whole words: a directory may have ID in its name
			switch w {
			case "ID":
				words[i] = id
			case "AFTER":
				words[i] = after.String()
			}
		}
		if run, err := exec.LookPath("systemd-run"); err == nil && underSystemd() {
			unit := append([]string{"--quiet", "--collect", "--unit=trafficup-netshape-rollback-" + id, "--", self}, words...)
			if exec.CommandContext(ctx, run, unit...).Run() == nil {
				return nil
			}
		}
		return detach(self, words)
	}
}

// underSystemd reports whether a unit would see what we see: the same network and
// the same files.
func underSystemd() bool {
	for _, ns := range []string{"net", "mnt"} {
		ours, err := os.Readlink("/proc/self/ns/" + ns)
		theirs, e := os.Readlink("/proc/1/ns/" + ns) // root may
		if err != nil || e != nil || ours != theirs {
			return false
		}
	}
	_, err := os.Stat("/run/systemd/system")
	return err == nil
}

// detach starts a process that outlives this one, and does not wait for it. It
// holds none of our files: a pipe that it kept open would keep its reader waiting.
func detach(name string, args []string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	return cmd.Process.Release()
}

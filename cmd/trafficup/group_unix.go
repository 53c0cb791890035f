//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// grouped lets cmd run in a process group of its own, all of which is killed when
// its time is over: a shell's children would outlive the shell.
func grouped(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

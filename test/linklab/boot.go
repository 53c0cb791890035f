//go:build linux

package linklab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	kernel  = "linux.uml"
	modules = "/usr/lib/uml/modules" // holds one directory for each kernel release
	grace   = 3 * time.Second        // that a kernel has to end in once it has halted
)

// Missing returns what has to be installed before [Boot] can work, or nil.
func Missing() error {
	if os.Getuid() != 0 {
		return errors.New("not root")
	}
	for _, name := range []string{kernel, "modprobe", "ip", "tc"} {
		if _, err := exec.LookPath(name); err != nil {
			return fmt.Errorf("%w (Debian packages user-mode-linux, kmod and iproute2)", err)
		}
	}
	_, err := os.Stat(modules)
	return err
}

// Boot runs a kernel whose init is the static program at the absolute path
// init, started with args, and returns when init has switched the kernel off.
// What the kernel and init print goes to console.
//
// The guest sees the machine's files read-only; to write, init mounts a hostfs
// of its own. dir, a path without blanks, takes what belongs to the kernel while
// it runs. When ctx ends, the kernel is killed; one whose init dies without having
// switched it off hangs until then. One that has said that it halted is killed when
// it is not gone soon, and that is no error. No process is left either way, nor when
// this process dies.
func Boot(ctx context.Context, console io.Writer, dir, init string, args ...string) error {
	off, cancel := context.WithCancel(ctx)
	defer cancel()
	out := &watchedConsole{Writer: console, halted: func() { time.AfterFunc(grace, cancel) }}
	cmd := exec.CommandContext(off, kernel, append([]string{
		"mem=1G", "rootfstype=hostfs", "rootflags=/", "ro", "quiet",
		"con=null", "con0=null,fd:1", "uml_dir=" + dir, "umid=kernel",
		"root=98:0", "console=tty0", // when not said here, they are put behind args
		"init=" + init, "--",
	}, args...)...)
	cmd.Stdout, cmd.Stderr = out, out
	// The guest's memory is a file without a name there; /dev/shm would be the
	// default and is often too small in a container.
	cmd.Env = []string{"HOME=" + dir, "TMPDIR=" + dir}
	// The processes of the guest are processes here, too. In a namespace of
	// their own they end with the kernel, which is its first.
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = 5 * time.Second
	runtime.LockOSThread() // Pdeathsig means the thread that started it
	defer runtime.UnlockOSThread()
	err := cmd.Start()
	if err == nil {
		hurry(cmd.Process.Pid)
		err = cmd.Wait()
	}
	if err == nil || out.seen && ctx.Err() == nil {
		return nil
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("%w (%w)", ctx.Err(), err)
	}
	return fmt.Errorf("%s: %w", kernel, err)
}

// watchedConsole calls halted once when the kernel has said that it halted. After
// that it only has to end its processes, at which it hangs now and then.
type watchedConsole struct {
	io.Writer
	halted func()
	line   []byte // the last one, as far as it is there
	seen   bool
}

func (c *watchedConsole) Write(p []byte) (int, error) {
	c.line = append(c.line, p...)
	if !c.seen && bytes.Contains(c.line, []byte("reboot: System halted")) {
		c.seen = true
		c.halted()
	}
	c.line = c.line[bytes.LastIndexByte(c.line, '\n')+1:]
	return c.Writer.Write(p)
}

// hurry lets a kernel run before everything else on the machine, where that is
// allowed. It and its processes hand over to each other many times for each
// record, and a link that is late because the machine is busy proves nothing.
func hurry(pid int) {
	_ = unix.SchedSetAttr(pid, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 1}, 0)
}

// Build compiles a package of this module to dir/name as a static program and
// returns its path.
func Build(ctx context.Context, dir, name, pkg string) (string, error) {
	path := filepath.Join(dir, name)
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-ldflags=-X main.made="+Made, "-o", path, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w: %s", pkg, err, strings.TrimSpace(string(out)))
	}
	return path, nil
}

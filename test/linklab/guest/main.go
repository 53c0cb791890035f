//go:build linux

// Command guest is the init of a kernel that the link lab boots. It is started
// with the directory of the lab, beside which the program to try lies, the time
// all may take, and names of scenarios: those with commas between them are
// played one after the other, the arguments side by side. It writes one JSON
// line for each scenario to a file in that directory. It starts itself again, to
// do so, to measure round trips, as the control, and as a provider's relay.
package main

import (
	"bytes"
	"context"
	"encoding/json/v2"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"trafficup/test/linklab"
)

func main() {
	var err error
	switch {
	case os.Getpid() == 1:
		boot()
	case len(os.Args) == 3 && os.Args[1] == "rtt":
		err = measure(os.Args[2])
	case len(os.Args) == 5 && os.Args[1] == "control":
		err = control(os.Args[2:])
	case len(os.Args) == 4 && os.Args[1] == "relay":
		err = relay(os.Args[2], os.Args[3])
	default:
		err = play(os.Args[1:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "guest:", err)
		os.Exit(1)
	}
}

// boot lets another process do the work: whatever becomes of that, the kernel
// is switched off and does not hang without an init.
func boot() {
	err := prepare(os.Args[1])
	if err == nil {
		cmd := exec.Command(os.Args[0], os.Args[1:]...)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		err = cmd.Run()
	}
	if err != nil {
		fmt.Println("guest:", err)
	}
	syscall.Reboot(syscall.LINUX_REBOOT_CMD_POWER_OFF)
}

const (
	shared  = "/run/host" // where the lab's directory can be written
	scratch = "/run/lab"  // in memory, for what the scenarios write
)

func play(args []string) error {
	if len(args) < 3 {
		return fmt.Errorf("got arguments %q, want a directory, a duration and names", args)
	}
	dir, rows := args[0], args[2:]
	limit, err := time.ParseDuration(args[1])
	if err != nil {
		return err
	}
	out, err := os.OpenFile(filepath.Join(shared, linklab.ResultsFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	bin := filepath.Join(dir, "..", "trafficup")
	var wg sync.WaitGroup
	for _, row := range rows {
		wg.Go(func() {
			for _, name := range strings.Split(row, ",") {
				line, err := json.Marshal(one(ctx, bin, name))
				if err == nil {
					_, err = out.Write(append(line, '\n')) // one write, so lines do not mix
				}
				if err != nil {
					fmt.Printf("guest: %s: %v\n", name, err)
				}
			}
		})
	}
	wg.Wait()
	return nil
}

// prepare mounts what programs expect and loads the modules.
func prepare(dir string) error {
	os.Setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
	for _, m := range []struct{ kind, at, options string }{
		{"proc", "/proc", ""}, {"sysfs", "/sys", ""}, {"tmpfs", "/run", ""}, {"hostfs", shared, dir},
	} {
		if err := os.MkdirAll(m.at, 0o755); err != nil {
			return err
		}
		if err := syscall.Mount(m.kind, m.at, m.kind, 0, m.options); err != nil {
			return fmt.Errorf("mount %s: %w", m.at, err)
		}
	}
	// modprobe wants them under lib/modules, which cannot be made on the root.
	if err := os.MkdirAll("/run/mod/lib", 0o755); err != nil {
		return err
	}
	if err := os.Symlink("/usr/lib/uml/modules", "/run/mod/lib/modules"); err != nil {
		return err
	}
	return command("modprobe", "-d", "/run/mod", "-a", "ipv6", "veth", "ifb", "sch_netem", "sch_fq_codel", "sch_cake")
}

// command runs a program whose output matters only if it fails.
func command(name string, args ...string) error {
	_, err := output(name, args...)
	return err
}

func output(name string, args ...string) (string, error) {
	var out, complaint bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, bytes.TrimSpace(complaint.Bytes()))
	}
	return out.String(), nil
}

//go:build linux

// Command guest is the init of a kernel without nftables of family inet. It
// prints what dscpmark says there, with no netfilter, with netfilter but no
// nftables, and with nftables of other families only, and switches the kernel off.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"trafficup/internal/dscpmark"
)

func main() {
	defer func() { _ = syscall.Reboot(syscall.LINUX_REBOOT_CMD_POWER_OFF) }()
	_ = os.Setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
	for _, kind := range []string{"proc", "sysfs", "tmpfs"} {
		at := map[string]string{"proc": "/proc", "sysfs": "/sys", "tmpfs": "/run"}[kind]
		if err := syscall.Mount(kind, at, kind, 0, ""); err != nil {
			fmt.Println("mount", kind, err)
		}
	}
	_ = os.MkdirAll("/run/mod/lib", 0o755)
	_ = os.Symlink("/usr/lib/uml/modules", "/run/mod/lib/modules")
	for _, module := range []string{"", "nfnetlink", "nf_tables"} {
		if module != "" {
			if out, err := exec.Command("modprobe", "-d", "/run/mod", module).CombinedOutput(); err != nil {
				fmt.Println("modprobe", module, err, string(out))
			}
		}
		try(module)
	}
}

func try(module string) {
	cfg := dscpmark.Config{Interfaces: []string{"eth0"}, Classes: []dscpmark.Class{{Name: "bulk", DSCP: 1, Match: dscpmark.Match{Ports: []uint16{443}}}}}
	errs := map[string]error{"apply": dscpmark.Apply(cfg), "check": dscpmark.Check(cfg)}
	state, err := dscpmark.Read("")
	if err == nil && state.Present {
		err = errors.New("there is a table")
	}
	errs["read"] = err
	for what, err := range errs {
		fmt.Printf("guest: %q %s: unsupported %v: %v\n", module, what, errors.Is(err, dscpmark.ErrUnsupported), err)
	}
}

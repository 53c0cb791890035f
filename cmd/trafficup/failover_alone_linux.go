package main

import (
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// aloneHolder is the process that holds the name; trusted: it may set routes.
func aloneHolder() (pid int, trusted bool, err error) {
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: aloneName, Net: "unix"})
	if err != nil {
		return 0, false, err
	}
	defer func() { _ = c.Close() }()
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, false, err
	}
	var who *unix.Ucred
	var fault error
	err = raw.Control(func(fd uintptr) { who, fault = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err == nil {
		err = fault
	}
	if err != nil {
		return 0, false, err
	}
	return int(who.Pid), who.Uid == 0 || int(who.Uid) == os.Geteuid(), nil
}

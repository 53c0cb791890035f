package main

import (
	"syscall"

	"golang.org/x/sys/unix"

	"trafficup/internal/netshape"
)

func localMachine(dir, keep string, args ...string) (*netshape.Machine, error) {
	return netshape.Local(dir, keep, args...)
}

func linkEvents(stop <-chan struct{}) (<-chan struct{}, error) { return netshape.LinkEvents(stop) }

// shareAddress lets each watch of this machine listen at the same address: there is
// one for each uplink, and one configuration. Programs that do not share it, or are
// of another user, find it in use.
func shareAddress(_, _ string, c syscall.RawConn) (err error) {
	broken := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
	if broken != nil {
		return broken
	}
	return err
}

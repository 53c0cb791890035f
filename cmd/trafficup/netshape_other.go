//go:build !linux

package main

import (
	"fmt"
	"runtime"
	"syscall"

	"trafficup/internal/netshape"
)

func localMachine(string, string, ...string) (*netshape.Machine, error) {
	return nil, fmt.Errorf("netshape changes queues of the Linux kernel; this is %s: run it on the machine that has the uplink", runtime.GOOS)
}

func linkEvents(<-chan struct{}) (<-chan struct{}, error) { return nil, nil }

func shareAddress(string, string, syscall.RawConn) error { return nil }

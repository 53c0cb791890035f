//go:build !linux

package api

import (
	"fmt"
	"runtime"
	"syscall"
)

// CanMark tells that SocketOptions.DSCP can be set on this system.
const CanMark = false

func (o SocketOptions) control(func(error)) (func(network, addr string, c syscall.RawConn) error, error) {
	return nil, fmt.Errorf("dscp, interface, tcp user timeout and congestion control are not supported here (%s)", runtime.GOOS)
}

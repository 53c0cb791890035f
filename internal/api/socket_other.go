//go:build !linux

package api

import (
	"fmt"
	"runtime"
	"syscall"
)

func (o SocketOptions) control() (func(network, addr string, c syscall.RawConn) error, error) {
	return nil, fmt.Errorf("dscp, interface, tcp user timeout and congestion control are not supported here (%s)", runtime.GOOS)
}

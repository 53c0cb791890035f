//go:build !linux

package netshape

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"
)

func acked(net.Conn) (uint64, error) {
	return 0, errors.New("only the Linux kernel tells how much has arrived")
}

// PingProbe is for Linux only.
func PingProbe(netip.Addr) Probe {
	return func(context.Context) (time.Duration, error) {
		return 0, errors.New("ping is for Linux only: name a host:port")
	}
}

func marked(int) Dial { return new(net.Dialer).DialContext }

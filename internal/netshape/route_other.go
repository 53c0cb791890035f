//go:build !linux

package netshape

import (
	"errors"
	"net/netip"
)

func wayTo(netip.Addr) (name string, indirect bool, err error) {
	return "", false, errors.New("ways are known on Linux only")
}

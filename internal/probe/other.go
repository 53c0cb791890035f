//go:build !linux

package probe

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"
)

var errLinuxOnly = fmt.Errorf("uplinks are told apart by the Linux kernel only: %w", errors.ErrUnsupported)

// Route is for Linux only.
func (b Binding) Route(context.Context, netip.Addr) (Route, error) { return Route{}, errLinuxOnly }

// Ping is for Linux only.
func Ping(context.Context, netip.Addr) (time.Duration, error) { return 0, errLinuxOnly }

func ask(context.Context, Binding, Target) (exchange, error) { return exchange{}, errLinuxOnly }

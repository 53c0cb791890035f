//go:build !linux

package edge

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"trafficup/internal/failover"
	"trafficup/internal/probe"
	"trafficup/internal/route"
)

// Local is the network of this machine, which has to run Linux.
type Local struct {
	Layout  route.Layout
	Targets []probe.Target
	Timeout time.Duration
	Bad     []netip.Prefix
	Flush   Flush
	Rates   []uint64
	Since   time.Duration
}

// Flush is nothing here.
type Flush struct{ Failover, Failback time.Duration }

var errLinux = errors.New("failover sets routes of the Linux kernel")

// NewLocal returns l.
func NewLocal(l *Local) *Local { return l }

// Warnings are none.
func (*Local) Warnings() []string { return nil }

// Astray is nothing.
func (*Local) Astray() string { return "" }

// Look fails.
func (*Local) Look(int) (Link, error) { return Link{}, errLinux }

// Stand fails.
func (*Local) Stand(int) (string, error) { return "", errLinux }

// Changed does nothing.
func (*Local) Changed() {}

// Cut has nothing to cut.
func (*Local) Cut() error { return nil }

// Probe fails.
func (*Local) Probe(context.Context, int, int) (failover.Answer, bool) {
	return failover.Answer{Why: errLinux.Error()}, false
}

// Boot fails.
func Boot() (id string, since func() time.Duration, err error) { return "", nil, errLinux }

// Allowed fails.
func Allowed() error { return errLinux }

// Events fails.
func Events(context.Context) (<-chan struct{}, error) { return nil, errLinux }

// Carries fails.
func Carries(context.Context, route.Layout) (int, error) { return -1, errLinux }

// Remove fails.
func Remove(context.Context, route.Layout) (string, error) { return "", errLinux }

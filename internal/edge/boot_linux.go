package edge

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"trafficup/internal/route"
)

// Boot returns the id of this boot, and a clock of the time since, which counts
// while the machine sleeps and is never set.
func Boot() (id string, since func() time.Duration, err error) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", nil, err
	}
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return "", nil, err
	}
	return strings.TrimSpace(string(text)), func() time.Duration {
		var ts unix.Timespec
		_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) // it did not fail before
		return time.Duration(ts.Nano())
	}, nil
}

// Allowed tells whether this process may set routes; nil: it may.
func Allowed() error {
	var sets [2]unix.CapUserData
	if err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &sets[0]); err != nil {
		return nil // what it may not is refused then
	}
	if sets[0].Effective&(1<<unix.CAP_NET_ADMIN) == 0 {
		return errors.New("routes cannot be set: CAP_NET_ADMIN is not in effect")
	}
	return nil
}

// Events tells that something changed in the kernel, until ctx ends.
func Events(ctx context.Context) (<-chan struct{}, error) {
	return route.Events(ctx)
}

// Carries is the place of the uplink by which the default of ours leads now; -1: none.
func Carries(ctx context.Context, l route.Layout) (int, error) {
	k, err := route.Observe(ctx)
	return l.Carries(k), err
}

// Remove takes away all routes and rules of a layout, and says which.
func Remove(ctx context.Context, l route.Layout) (string, error) {
	p, err := route.Remove(ctx, l)
	return strings.TrimSpace(p.String()), err
}

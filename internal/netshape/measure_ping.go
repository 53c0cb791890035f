package netshape

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"trafficup/internal/probe"
)

// PingProbe sends an ICMP echo request to addr, marked EF. It needs a kernel that
// lets this group ping (net.ipv4.ping_group_range), or CAP_NET_RAW; the error says
// so. It costs some 130 bytes.
func PingProbe(addr netip.Addr) Probe {
	return func(ctx context.Context) (time.Duration, error) {
		took, err := probe.Ping(ctx, addr)
		if err != nil {
			err = errors.Join(context.Cause(ctx), err)
		}
		return took, err
	}
}

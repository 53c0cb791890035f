package edge

import (
	"context"

	"trafficup/internal/dscpmark"
	"trafficup/internal/route"
)

// See looks at the machine, and changes nothing.
func See(ctx context.Context) (s Sight, err error) {
	if s.Kernel, err = route.Observe(ctx); err != nil {
		return s, err
	}
	s.Touches, s.Offloads, s.NoMarks = dscpmark.Packets()
	s.NoCuts = route.CanDropFlows()
	return s, nil
}

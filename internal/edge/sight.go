package edge

import (
	"trafficup/internal/dscpmark"
	"trafficup/internal/route"
)

// Sight is what this machine's kernel says to who looks at it before failover is to
// run there.
type Sight struct {
	Kernel   route.Kernel
	Touches  []dscpmark.Touch
	Offloads []dscpmark.Offload
	NoMarks  error // why these two cannot be told
	NoCuts   error // why no connection could be cut
}

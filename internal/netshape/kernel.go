package netshape

import (
	"errors"

	"trafficup/internal/dscpmark"
	"trafficup/internal/tc"
)

// ErrNoLink is wrapped by a Kernel's error about an interface that is gone.
var ErrNoLink = errors.New("no such interface")

// Link is an interface as the kernel has it.
type Link struct {
	Index  int
	Name   string
	Up     bool   // carries traffic
	Queues int    // for sending
	Made   bool   // an ifb, by us
	Kind   string // "ifb", "veth" and so on; "device" for hardware
}

// Kernel is what is asked of the kernel's queues. [Local] has the real one.
// Methods that change something are called under the state directory's lock only.
type Kernel interface {
	// Rights returns nil when this process may change queues, and else says what it lacks.
	Rights() error
	// Missing returns those of kinds that the kernel cannot make. It may need rights.
	Missing(kinds []tc.Kind) ([]tc.Kind, error)
	Links() ([]Link, error)
	Qdiscs(link int) ([]tc.Qdisc, error)
	SetRoot(link int, s tc.Shaper) error
	// RestoreRoot puts back a root that we did not make, from what was read of it.
	RestoreRoot(link int, q tc.Qdisc) error
	DeleteRoot(link int) error // none is no error
	// Redirected reports whether our filter, and whether one of others, leads what comes
	// in, or what clsact sees going out, to ifb, the index of a link; 0: of one that is gone.
	Redirected(link, ifb int) (ours, others bool, err error)
	SetIngress(link int, ifb string, s tc.Shaper) error
	// DeleteIngress takes our filter away, and the ifb if we made it and no others lead to it;
	// else only our queue there. None is no error.
	DeleteIngress(link int, ifb string) error
	// RestoreIngress puts q back at the root of an ifb that others made; none: the default.
	RestoreIngress(link int, ifb string, q tc.Qdisc) error
}

// Marks is what is asked of the table that marks traffic.
type Marks interface {
	Read() (dscpmark.State, error)
	Apply(dscpmark.Config) error
	Delete() error
	// Check tells whether Apply would work, and changes nothing.
	Check(dscpmark.Config) error
	// Collisions names those who use the same bits of marks, or bypass the table.
	Collisions(dscpmark.Config) ([]string, error)
	tables
}

// tables is what is known of a table of marks without asking the kernel.
type tables interface {
	Fingerprint(dscpmark.Config) (string, error)
	Script(dscpmark.Config) (string, error) // in nft's language
}

package netshape

import (
	"context"
	"path/filepath"
	"time"

	"trafficup/internal/atomicfile"
	"trafficup/internal/disk"
)

// DefaultDir is where the state is kept: it is meant to be gone after a reboot, as
// the queues are.
const DefaultDir = "/run/trafficup/netshape"

// Machine is a machine's queues and marks, with the directory that remembers what
// was done to them. Its methods may be called by several processes at once, those
// that change something take turns; one Machine is for one goroutine.
type Machine struct {
	Kernel Kernel
	Marks  Marks
	FS     disk.FS
	Dir    string // of the state; made when there is need of it
	Keep   string // where what was confirmed is kept across reboots; "": nowhere
	Boot   string // the id of this boot
	// Contained: this process is in a container, which hints go by.
	Contained bool
	// Uptime is the time since boot, sleep included, which nobody can set. nil: the
	// clock is taken for it.
	Uptime func() (time.Duration, error)
	// Warn is told once of what is wrong and ends nothing. nil: nobody is.
	Warn func(text string)

	// Rearguard starts a process, not a child in need of this one, that calls
	// [Machine.RollbackAfter] for id when after has gone by. It must be on its way
	// when Rearguard returns.
	Rearguard func(ctx context.Context, id string, after time.Duration) error
	// Lock takes the lock at path, which a dead process gives up. nil: a file lock.
	Lock func(ctx context.Context, path string) (unlock func() error, err error)

	locked bool            // by this Machine
	warned map[string]bool // of which texts
}

// lock keeps all others from changing something, until unlock is called or the
// process ends. It waits for them.
func (m *Machine) lock(ctx context.Context) (unlock func() error, err error) {
	give, err := m.take(ctx)
	if err != nil {
		return nil, err
	}
	m.locked = true
	return func() error {
		m.locked = false
		return give()
	}, nil
}

func (m *Machine) take(ctx context.Context) (unlock func() error, err error) {
	path := filepath.Join(m.Dir, lockFile)
	if m.Lock != nil {
		return m.Lock(ctx, path)
	}
	if err := disk.MakeDir(m.FS, m.Dir); err != nil {
		return nil, err
	}
	return atomicfile.Lock(ctx, path, "netshape")
}

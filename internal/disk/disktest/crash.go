package disktest

import (
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
)

// block is what a disk writes whole, in bytes.
const block = 512

// Kill ends every process: what they go on doing returns ErrDead. What they
// wrote stays, in the kernel's memory. The hook is taken away.
func (d *Disk) Kill() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.kill()
}

// kill is Kill. requires mu.
func (d *Disk) kill() {
	d.process++
	d.hook = nil
}

// PowerCut kills every process and forgets, as r has it, of what was not made
// durable.
func (d *Disk) PowerCut(r *rand.Rand) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.kill()
	for _, c := range d.pending {
		if r.IntN(2) == 0 {
			set(d.durable, c)
		}
	}
	d.pending = nil
	names := map[string]*node{}
	for _, name := range slices.Sorted(maps.Keys(d.durable)) { // a directory before what is in it
		dir, n := filepath.Dir(name), d.durable[name]
		if !root(dir) && names[dir] == nil {
			continue
		}
		data := n.data
		if !n.mode.IsDir() {
			data = survive(n.synced, n.data, r)
		}
		// New nodes: a write that is under way goes to the old ones, into nothing.
		names[name] = &node{n.mode, data, slices.Clone(data), len(data), n.mod}
	}
	d.names, d.durable = names, maps.Clone(names)
}

// survive returns what is left of a file: all, only what was synced, or, in the
// other half of the cases, of any length between and any blocks of both.
func survive(synced, written []byte, r *rand.Rand) []byte {
	switch r.IntN(4) {
	case 0:
		return slices.Clone(synced)
	case 1:
		return slices.Clone(written)
	}
	low := min(len(synced), len(written))
	left := make([]byte, low+r.IntN(max(len(synced), len(written))-low+1))
	for at := 0; at < len(left); at += block {
		from := synced
		if r.IntN(2) == 0 {
			from = written
		}
		if at < len(from) {
			copy(left[at:min(at+block, len(left))], from[at:])
		}
	}
	return left
}

// Package disktest is a disk in memory that knows what was written from what is
// durable. A test writes through [Disk.FS] as a process would, kills the process
// or cuts the power at any operation, and looks at what the next one finds.
//
// After a power cut a file holds its last synced content and of what was
// written since any blocks, and a change of names that was not made durable by
// SyncDir of the directory has happened or not.
package disktest

import (
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"trafficup/internal/disk"
)

// ErrDead is the answer to every operation of a process that was killed.
var ErrDead = errors.New("the process is dead")

// Disk is a disk. It is safe for concurrent use.
type Disk struct {
	mu      sync.Mutex
	process int              // guarded by mu; the living one
	names   map[string]*node // guarded by mu; as every process sees them
	durable map[string]*node // guarded by mu; as they are after a power cut, pending apart
	pending []change         // guarded by mu; of names, since durable, in order
	limit   int64            // guarded by mu
	hook    func(Op) error   // guarded by mu
	ops     int64            // guarded by mu
}

// node is a file or directory. Its fields are guarded by Disk.mu.
type node struct {
	mode   fs.FileMode
	data   []byte // as written
	synced []byte // as synced
	same   int    // so many first bytes of both are the same
	mod    time.Time
}

// change sets names at once: to a node, or nil for none.
type change map[string]*node

// New returns an empty disk. The directories "/" and "." are there.
func New() *Disk {
	return &Disk{names: map[string]*node{}, durable: map[string]*node{}}
}

// FS returns the disk as a new process sees it. Kill ends all of them.
func (d *Disk) FS() disk.FS {
	d.mu.Lock()
	defer d.mu.Unlock()
	return process{d, d.process}
}

// Limit bounds the bytes of all files together. A write beyond writes what fits
// and returns ENOSPC. 0 is no limit.
func (d *Disk) Limit(bytes int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.limit = bytes
}

// Bytes returns a file's content as written.
func (d *Disk) Bytes(name string) ([]byte, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.names[filepath.Clean(name)]
	if n == nil || n.mode.IsDir() {
		return nil, false
	}
	return slices.Clone(n.data), true
}

// SetBytes makes or damages a file: data is its content, and durable. The
// directories above it are made, too.
func (d *Disk) SetBytes(name string, data []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	name = filepath.Clean(name)
	for dir := filepath.Dir(name); !root(dir); dir = filepath.Dir(dir) {
		if d.names[dir] == nil {
			d.names[dir] = &node{mode: fs.ModeDir | 0o700, mod: time.Now()}
		}
		d.durable[dir] = d.names[dir]
	}
	n := d.names[name]
	if n == nil {
		n = &node{mode: 0o600}
		d.names[name] = n
	}
	d.durable[name] = n
	*n = node{mode: n.mode, data: slices.Clone(data), synced: slices.Clone(data), same: len(data), mod: time.Now()}
}

// Names returns the paths of all files, sorted.
func (d *Disk) Names() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	names := slices.Sorted(maps.Keys(d.names))
	return slices.DeleteFunc(names, func(name string) bool { return d.names[name].mode.IsDir() })
}

func root(dir string) bool { return dir == "/" || dir == "." }

// parent returns nil if a name can stand at path. requires mu.
func (d *Disk) parent(path string) error {
	dir := filepath.Dir(path)
	if root(dir) {
		return nil
	}
	n := d.names[dir]
	switch {
	case n != nil && n.mode.IsDir():
		return nil
	case n != nil:
		return syscall.ENOTDIR
	}
	return d.missing(dir)
}

// missing says what is wrong with a path at which there is nothing. requires mu.
func (d *Disk) missing(path string) error {
	if err := d.parent(path); err != nil {
		return err
	}
	return syscall.ENOENT
}

// apply changes names. requires mu.
func (d *Disk) apply(c change) {
	set(d.names, c)
	d.pending = append(d.pending, c)
}

func set(names map[string]*node, c change) {
	for name, n := range c {
		if n == nil {
			delete(names, name)
		} else {
			names[name] = n
		}
	}
}

// in says whether the change concerns a directory.
func (c change) in(dir string) bool {
	for name := range c {
		if filepath.Dir(name) == dir {
			return true
		}
	}
	return false
}

// room returns how many of n bytes more may be written. requires mu.
func (d *Disk) room(n int) int {
	if d.limit == 0 {
		return n
	}
	used := int64(0)
	for _, f := range d.names {
		used += int64(len(f.data))
	}
	return int(max(0, min(int64(n), d.limit-used)))
}

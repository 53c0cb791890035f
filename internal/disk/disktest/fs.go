package disktest

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"trafficup/internal/disk"
)

// process is the disk as one process sees it.
type process struct {
	d  *Disk
	id int
}

// lock takes the disk's lock, or says that the process is dead.
func (p process) lock() error {
	p.d.mu.Lock()
	if p.d.process != p.id {
		p.d.mu.Unlock()
		return ErrDead
	}
	return nil
}

func (p process) OpenFile(name string, flag int, perm fs.FileMode) (disk.File, error) {
	path := filepath.Clean(name)
	f := &file{p: p, name: name, flag: flag}
	if err := p.lock(); err != nil {
		return nil, fault("open", name, err)
	}
	err := p.d.lookup(path, f)
	p.d.mu.Unlock()
	op := Op{Kind: Truncate, Name: path}
	switch {
	case err != nil:
		return nil, fault("open", name, err)
	case f.node == nil:
		op.Kind = Create
	case flag&os.O_TRUNC == 0:
		return f, nil
	}
	err = p.do(op, func(int) error {
		if err := p.d.lookup(path, f); err != nil { // again: the lock was free meanwhile
			return err
		}
		if f.node == nil {
			f.node = &node{mode: perm.Perm(), mod: time.Now()}
			p.d.apply(change{path: f.node})
		}
		if flag&os.O_TRUNC != 0 {
			f.node.data, f.node.same = nil, 0
		}
		return nil
	})
	if err != nil {
		return nil, fault("open", name, err)
	}
	return f, nil
}

// lookup sets f.node to what is at path; nil if f is to be made. requires mu.
func (d *Disk) lookup(path string, f *file) error {
	f.node = d.names[path]
	if root(path) {
		f.node = &node{mode: fs.ModeDir | 0o700}
	}
	switch {
	case f.node == nil:
		if err := d.parent(path); err != nil {
			return err
		}
		if f.flag&os.O_CREATE == 0 {
			return syscall.ENOENT
		}
	case f.flag&(os.O_CREATE|os.O_EXCL) == os.O_CREATE|os.O_EXCL:
		return syscall.EEXIST
	case f.node.mode.IsDir() && (f.writable() || f.flag&(os.O_CREATE|os.O_TRUNC) != 0):
		return syscall.EISDIR
	}
	return nil
}

func (p process) MkdirAll(name string, perm fs.FileMode) error {
	path := filepath.Clean(name)
	if root(path) {
		return nil
	}
	if err := p.MkdirAll(filepath.Dir(path), perm); err != nil {
		return err
	}
	if err := p.lock(); err != nil {
		return fault("mkdir", name, err)
	}
	n := p.d.names[path]
	p.d.mu.Unlock()
	switch {
	case n != nil && n.mode.IsDir():
		return nil
	case n != nil:
		return fault("mkdir", name, syscall.ENOTDIR)
	}
	return fault("mkdir", name, p.do(Op{Kind: Mkdir, Name: path}, func(int) error {
		if p.d.names[path] == nil {
			p.d.apply(change{path: {mode: fs.ModeDir | perm.Perm(), mod: time.Now()}})
		}
		return nil
	}))
}

func (p process) ReadDir(name string) ([]fs.DirEntry, error) {
	dir := filepath.Clean(name)
	if err := p.lock(); err != nil {
		return nil, fault("open", name, err)
	}
	defer p.d.mu.Unlock()
	if err := p.d.directory(dir); err != nil {
		return nil, fault("open", name, err)
	}
	var entries []fs.DirEntry
	for _, path := range slices.Sorted(maps.Keys(p.d.names)) {
		if filepath.Dir(path) == dir {
			entries = append(entries, fs.FileInfoToDirEntry(p.d.names[path].info(path)))
		}
	}
	return entries, nil
}

// directory returns nil if there is one at path. requires mu.
func (d *Disk) directory(path string) error {
	if root(path) {
		return nil
	}
	switch n := d.names[path]; {
	case n == nil:
		return d.missing(path)
	case !n.mode.IsDir():
		return syscall.ENOTDIR
	}
	return nil
}

// Rename renames files; directories it refuses.
func (p process) Rename(from, to string) error {
	a, b := filepath.Clean(from), filepath.Clean(to)
	err := p.do(Op{Kind: Rename, Name: b}, func(int) error {
		for _, path := range []string{a, b} {
			if err := p.d.parent(path); err != nil {
				return err
			}
		}
		n, over := p.d.names[a], p.d.names[b]
		switch {
		case n == nil:
			return syscall.ENOENT
		case over != nil && over.mode.IsDir():
			return syscall.EEXIST
		case n.mode.IsDir():
			return syscall.ENOTSUP
		}
		if a != b {
			p.d.apply(change{a: nil, b: n})
		}
		return nil
	})
	if err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}

func (p process) Remove(name string) error {
	path := filepath.Clean(name)
	return fault("remove", name, p.do(Op{Kind: Remove, Name: path}, func(int) error {
		n := p.d.names[path]
		if n == nil {
			return p.d.missing(path)
		}
		if n.mode.IsDir() {
			for other := range p.d.names {
				if filepath.Dir(other) == path {
					return syscall.ENOTEMPTY
				}
			}
		}
		p.d.apply(change{path: nil})
		return nil
	}))
}

func (p process) SyncDir(name string) error {
	dir := filepath.Clean(name)
	return fault("sync", name, p.do(Op{Kind: SyncDir, Name: dir}, func(int) error {
		if err := p.d.directory(dir); err != nil {
			return err
		}
		p.d.pending = slices.DeleteFunc(p.d.pending, func(c change) bool {
			if c.in(dir) {
				set(p.d.durable, c)
				return true
			}
			return false
		})
		return nil
	}))
}

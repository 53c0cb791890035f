package disktest

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// file is an open file.
type file struct {
	p      process
	name   string
	flag   int
	node   *node
	at     int  // guarded by Disk.mu; where the next Read or Write is
	closed bool // guarded by Disk.mu
}

func (f *file) writable() bool { return f.flag&(os.O_WRONLY|os.O_RDWR) != 0 }

// check returns what is wrong before an operation begins.
func (f *file) check(forbidden bool, err error) error {
	if err := f.p.lock(); err != nil {
		return err
	}
	defer f.p.d.mu.Unlock()
	if f.closed {
		return fs.ErrClosed
	}
	if forbidden {
		return err
	}
	return nil
}

func (f *file) Read(b []byte) (int, error) {
	if err := f.check(f.flag&os.O_WRONLY != 0, syscall.EBADF); err != nil {
		return 0, fault("read", f.name, err)
	}
	f.p.d.mu.Lock()
	defer f.p.d.mu.Unlock()
	if f.node.mode.IsDir() {
		return 0, fault("read", f.name, syscall.EISDIR)
	}
	if len(b) > 0 && f.at >= len(f.node.data) {
		return 0, io.EOF
	}
	n := copy(b, f.node.data[min(f.at, len(f.node.data)):])
	f.at += n
	return n, nil
}

func (f *file) Write(b []byte) (int, error) {
	if err := f.check(!f.writable(), syscall.EBADF); err != nil {
		return 0, fault("write", f.name, err)
	}
	written := 0
	err := f.p.do(Op{Kind: Write, Name: filepath.Clean(f.name), Bytes: len(b)}, func(n int) error {
		if f.flag&os.O_APPEND != 0 {
			f.at = len(f.node.data)
		}
		written = f.p.d.room(f.at + n - len(f.node.data))
		written = min(n, max(0, len(f.node.data)-f.at+written))
		if written > 0 {
			f.node.data = resize(f.node.data, max(len(f.node.data), f.at+written))
			f.node.same = min(f.node.same, f.at)
			f.at += copy(f.node.data[f.at:], b[:written])
			f.node.mod = time.Now()
		}
		if written < n {
			return syscall.ENOSPC
		}
		return nil
	})
	return written, fault("write", f.name, err)
}

// resize returns data with another length; what is new are zeros.
func resize(data []byte, n int) []byte {
	if n <= len(data) {
		return data[:n]
	}
	old := len(data)
	data = slices.Grow(data, n-old)[:n]
	clear(data[old:])
	return data
}

func (f *file) Sync() error {
	err := f.check(false, nil)
	if err == nil {
		err = f.p.do(Op{Kind: Sync, Name: filepath.Clean(f.name)}, func(int) error {
			f.node.sync()
			return nil
		})
	}
	return fault("sync", f.name, err)
}

// sync makes the content durable. Only what changed is copied: logs are synced
// after every few bytes. requires mu.
func (n *node) sync() {
	n.synced = append(n.synced[:n.same], n.data[n.same:]...)
	n.same = len(n.data)
}

func (f *file) Truncate(size int64) error {
	err := f.check(!f.writable() || size < 0, syscall.EINVAL)
	if err == nil {
		err = f.p.do(Op{Kind: Truncate, Name: filepath.Clean(f.name)}, func(int) error {
			grow := int(size) - len(f.node.data)
			if grow > f.p.d.room(max(0, grow)) {
				return syscall.ENOSPC
			}
			f.node.data, f.node.same = resize(f.node.data, int(size)), min(f.node.same, int(size))
			return nil
		})
	}
	return fault("truncate", f.name, err)
}

func (f *file) Close() error {
	err := f.check(false, nil)
	if err == nil {
		f.p.d.mu.Lock()
		defer f.p.d.mu.Unlock()
		f.closed = true
	}
	return fault("close", f.name, err)
}

func (f *file) Stat() (fs.FileInfo, error) {
	if err := f.check(false, nil); err != nil {
		return nil, fault("stat", f.name, err)
	}
	f.p.d.mu.Lock()
	defer f.p.d.mu.Unlock()
	return f.node.info(f.name), nil
}

// info describes a node. requires mu.
func (n *node) info(path string) info {
	return info{filepath.Base(path), int64(len(n.data)), n.mode, n.mod}
}

type info struct {
	name string
	size int64
	mode fs.FileMode
	mod  time.Time
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return i.size }
func (i info) Mode() fs.FileMode  { return i.mode }
func (i info) ModTime() time.Time { return i.mod }
func (i info) IsDir() bool        { return i.mode.IsDir() }
func (i info) Sys() any           { return nil }

// Package disk is the file system as the parts that must survive a crash use
// it: few operations, each with a stated durability. Tests put another one in
// its place, which tears writes and forgets what was not synced.
package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// File is an open file. What Write returned nil for survives the process; what
// Sync returned nil for survives a power cut. After an error of Sync nothing
// written since the last good one can be trusted, however often it is repeated.
type File interface {
	io.Reader
	io.Writer
	io.Closer
	Sync() error
	Truncate(size int64) error // does not move the offset of a file opened without O_APPEND
	Stat() (fs.FileInfo, error)
}

// FS is a file system. A name that was made, renamed or removed survives a
// power cut after SyncDir of its directory.
type FS interface {
	OpenFile(name string, flag int, perm fs.FileMode) (File, error)
	MkdirAll(name string, perm fs.FileMode) error
	ReadDir(name string) ([]fs.DirEntry, error) // sorted by name
	Rename(from, to string) error
	Remove(name string) error
	SyncDir(name string) error
}

// ErrNotRegular is wrapped by OpenFile's answer to a pipe, a device and the like.
var ErrNotRegular = errors.New("not a regular file")

// OS is the file system of the machine.
type OS struct{}

// OpenFile is os.OpenFile for files and directories. Anything else that bears
// the name, a pipe that nobody writes to for one, is refused and not waited for.
func (OS) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	f, err := os.OpenFile(name, flag|nonblock, perm)
	if err != nil {
		return nil, err // not f: a nil *os.File is not a nil File
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		err = &fs.PathError{Op: "open", Path: name, Err: ErrNotRegular}
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// MkdirAll is os.MkdirAll.
func (OS) MkdirAll(name string, perm fs.FileMode) error { return os.MkdirAll(name, perm) }

// ReadDir is os.ReadDir.
func (OS) ReadDir(name string) ([]fs.DirEntry, error) { return os.ReadDir(name) }

// Rename is os.Rename.
func (OS) Rename(from, to string) error { return os.Rename(from, to) }

// Remove is os.Remove.
func (OS) Remove(name string) error { return os.Remove(name) }

// SyncDir makes the names in a directory durable. A file system that does not
// know how has nothing to be asked for.
func (OS) SyncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		err = nil
	}
	return errors.Join(err, d.Close())
}

// ReadFile returns the content of a file.
func ReadFile(fsys FS, name string) ([]byte, error) {
	f, err := fsys.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(f)
	return data, errors.Join(err, f.Close())
}

// Replace puts data in the place of name, with mode 0600, so that a reader, also
// one after a power cut, finds the old content or the new and nothing between:
// a temporary file beside it is written and synced, renamed over it, and the
// directory synced. After an error the old content stands, unless only the last
// sync failed. Whatever bears the name of the temporary file, "name.tmp", as after
// a crash, is removed by the next Replace, and neither written into nor followed:
// its mode and what it links to are not ours. There must be one Replace at a time.
func Replace(fsys FS, name string, data []byte) error { return ReplaceWith(fsys, name, data, 0o600) }

// ReplaceWith is Replace with another mode, which the umask does not narrow where the
// file system lets it be set: for what others are to read.
func ReplaceWith(fsys FS, name string, data []byte, perm fs.FileMode) (err error) {
	tmp := name + ".tmp"
	defer func() {
		if err != nil {
			err = fmt.Errorf("replace %s: %w", name, err)
		}
	}()
	const fresh = os.O_WRONLY | os.O_CREATE | os.O_EXCL // which follows no link
	f, err := fsys.OpenFile(tmp, fresh, perm)
	if errors.Is(err, fs.ErrExist) {
		if err = fsys.Remove(tmp); err == nil {
			f, err = fsys.OpenFile(tmp, fresh, perm)
		}
	}
	if err != nil {
		return err
	}
	if c, ok := f.(interface{ Chmod(fs.FileMode) error }); ok {
		err = c.Chmod(perm)
	}
	if err == nil {
		_, err = f.Write(data)
	}
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = fsys.Rename(tmp, name)
	}
	if err != nil {
		_ = fsys.Remove(tmp) // the first error says more
		return err
	}
	return fsys.SyncDir(filepath.Dir(name))
}

// MakeDir makes dir, and those above it that are missing, with mode 0700, and
// makes their names durable: what is synced inside a directory whose own name is
// not would be gone with it. Those that are there already are no exception: who
// made them may have died before it came to that.
func MakeDir(fsys FS, dir string) error {
	if err := fsys.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for d := filepath.Clean(dir); d != filepath.Dir(d); d = filepath.Dir(d) {
		// A directory that cannot be read, far above, is not one of ours.
		if err := fsys.SyncDir(filepath.Dir(d)); err != nil && !errors.Is(err, fs.ErrPermission) {
			return err
		}
	}
	return nil
}

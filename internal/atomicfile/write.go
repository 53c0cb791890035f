// Package atomicfile replaces files so that a reader, also one after a crash,
// sees the old content or the new and nothing between, and takes locks that the
// kernel frees when the process ends, however it ends.
package atomicfile

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
)

// Write replaces path with data, with exactly the permission bits of mode: a
// temporary file in the same directory is written and synced, renamed over
// path, and the directory is synced. A symbolic link at path is replaced, not
// followed. On an error path holds its old content, unless only the last sync
// failed: then it holds the new one, which a power cut may still undo.
func Write(path string, data []byte, mode fs.FileMode) error {
	dir := filepath.Dir(path)
	if err := replaceSynced(dir, path, data, mode); err != nil {
		return fmt.Errorf("replace %s: %w", path, err)
	}
	if err := syncDir(dir); err != nil {
		return fmt.Errorf("sync directory of %s: %w", path, err)
	}
	return nil
}

func replaceSynced(dir, path string, data []byte, mode fs.FileMode) error {
	// The directory is named because the default is $TMPDIR where it can be: a
	// temporary file left by a crash belongs next to its target. renameio's
	// WriteFile is no use here: it keeps the mode of the file it replaces.
	f, err := renameio.NewPendingFile(path, renameio.WithTempDir(dir), renameio.WithStaticPermissions(mode))
	if err != nil {
		return err
	}
	defer func() { _ = f.Cleanup() }() // does nothing after the rename
	if _, err := f.Write(data); err != nil {
		return err
	}
	return f.CloseAtomicallyReplace()
}

// Replace is Write without the syncs: atomic for readers and for a killed
// process, but after a power cut path may hold its old content or none. It is
// for state that changes often and can be done without.
func Replace(path string, data []byte, mode fs.FileMode) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("replace %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			_ = f.Close() // already reported, or closed
			_ = os.Remove(f.Name())
			err = fmt.Errorf("replace %s: %w", path, err)
		}
	}()
	if err := f.Chmod(mode); err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	return err
}

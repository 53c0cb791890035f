package deadletter

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"trafficup/internal/disk"
)

// Writer appends letters to one file. It is safe for concurrent use. The file
// is made with the first letter, so a clean night leaves none.
type Writer struct {
	fs   disk.FS
	path string

	mu     sync.Mutex
	f      disk.File // guarded by mu
	size   int64     // guarded by mu; bytes known to be whole letters on disk
	count  int       // guarded by mu
	broken error     // guarded by mu; why nothing can be written any more
}

// NewWriter returns a writer to path; its directory must exist.
func NewWriter(fsys disk.FS, path string) *Writer { return &Writer{fs: fsys, path: path} }

// Path is where the letters are.
func (w *Writer) Path() string { return w.path }

// Count is the number of letters written.
func (w *Writer) Count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.count
}

// Write appends a letter and returns when it is on disk. After an error the
// file is cut back to its last whole letter. When a sync or that cut failed,
// every later Write returns the same error: nobody knows what is on disk.
func (w *Writer) Write(l Letter) error {
	line, err := l.Encode()
	if err != nil {
		return fmt.Errorf("encode dead letter: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken != nil {
		return w.broken
	}
	if w.f == nil {
		if err := w.open(); err != nil {
			return err
		}
	}
	if err := w.append(line); err != nil {
		return err
	}
	w.size += int64(len(line))
	w.count++
	return nil
}

// append writes and syncs one line. Requires mu.
func (w *Writer) append(line []byte) error {
	_, err := w.f.Write(line)
	synced := error(nil)
	if err == nil {
		synced = w.f.Sync()
	}
	if err = errors.Join(err, synced); err == nil {
		return nil
	}
	cut := w.f.Truncate(w.size)
	err = errors.Join(err, cut)
	if synced != nil || cut != nil {
		w.broken = err
	}
	return err
}

// open makes the file durable by name before the first letter goes in.
// Requires mu.
func (w *Writer) open() error {
	f, err := w.fs.OpenFile(w.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	if err := w.fs.SyncDir(filepath.Dir(w.path)); err != nil {
		w.broken = errors.Join(err, f.Close())
		return w.broken
	}
	w.f = f
	return nil
}

// Close closes the file, if there is one.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.f == nil {
		return nil
	}
	err := w.f.Close()
	w.f = nil
	return err
}

// Gone reports that the file was removed while letters were written to it: they
// are not there any more.
func (w *Writer) Gone() error {
	if w.Count() == 0 {
		return nil
	}
	f, err := w.fs.OpenFile(w.path, os.O_RDONLY, 0)
	if err != nil {
		return fmt.Errorf("the file was removed while it was written: %w", err)
	}
	return f.Close()
}

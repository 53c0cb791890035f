package breaker

import (
	"context"
	"encoding/json/v2"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"

	"trafficup/internal/atomicfile"
	"trafficup/internal/disk"
)

const (
	maxFile    = 1 << 20         // a state file is a few hundred bytes
	maxKeys    = 256             // paths of all APIs a state directory has seen
	lockPause  = 5 * time.Second // without another try after waiting for a lock in vain
	badSuffix  = ".bad"
	lockSuffix = ".lock"
)

// errCorrupt marks content that is not a state file; it never leaves the package.
var errCorrupt = errors.New("not a breaker state file")

// document is the file: {"v":1,"breakers":{"<key>":{…}}}.
type document struct {
	Version  int              `json:"v"`
	Breakers map[string]State `json:"breakers"`
}

// NewFile returns a Store in the JSON file at path (mode 0600), shared by every
// process that names it. Updates hold a kernel lock on path + ".lock" and read
// the file anew; a change of phase or force is synced to disk, a mere count is not.
//
// A file that is damaged counts as empty and is kept as path + ".bad" at the
// next update. When the file cannot be read, locked or written, calls return the
// error and the store goes on in memory until a write succeeds again.
func NewFile(path string) Store {
	return &file{path: path, pending: make(map[string]State)}
}

type file struct {
	path string

	mu      sync.Mutex
	pending map[string]State // guarded by mu; newest states that could not be written
	paused  time.Time        // guarded by mu; no lock is waited for until then
	lockErr error            // guarded by mu; why
}

func (f *file) Load(_ context.Context, key string) (State, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	doc, err := f.read() // no lock: the file is only ever replaced whole
	if errors.Is(err, errCorrupt) {
		err = nil
	}
	return f.newest(doc, key), err
}

func (f *file) Update(ctx context.Context, key string, fn func(State, time.Time) State) (State, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	unlock, err := f.lock(ctx)
	if err != nil {
		return f.remember(document{}, key, fn), err
	}
	// The lock goes with the descriptor in any case; there is nobody to tell.
	defer func() { _ = unlock() }()

	doc, err := f.read()
	corrupt := errors.Is(err, errCorrupt)
	if err != nil && !corrupt {
		return f.remember(doc, key, fn), err
	}
	if corrupt {
		if err := os.Rename(f.path, f.path+badSuffix); err != nil {
			return f.remember(doc, key, fn), fmt.Errorf("set aside damaged breaker state: %w", err)
		}
	}
	stored, known := doc.Breakers[key]
	next := fn(f.newest(doc, key), time.Now())
	if next == stored {
		delete(f.pending, key)
		return next, nil
	}
	if !known && len(doc.Breakers) >= maxKeys {
		f.pending[key] = next
		return next, fmt.Errorf("%s: more than %d breakers", f.path, maxKeys)
	}
	if doc.Breakers == nil {
		doc.Breakers = make(map[string]State, 1)
	}
	for k := range f.pending {
		doc.Breakers[k] = f.newest(doc, k)
	}
	doc.Breakers[key] = next
	if err := f.write(doc, next.Phase != stored.Phase || next.Force != stored.Force); err != nil {
		f.pending[key] = next
		return next, err
	}
	clear(f.pending)
	return next, nil
}

// lock waits for the kernel lock. After waiting in vain, for a holder that is
// stopped say, it does not wait again for a while: every result of a run would
// pay for it. requires mu.
func (f *file) lock(ctx context.Context) (func() error, error) {
	if now := time.Now(); now.Before(f.paused) {
		unlock, err := atomicfile.TryLock(f.path+lockSuffix, "")
		if err != nil {
			return nil, f.lockErr
		}
		f.paused = time.Time{}
		return unlock, nil
	}
	unlock, err := atomicfile.Lock(ctx, f.path+lockSuffix, "")
	if errors.Is(err, atomicfile.ErrLocked) {
		f.paused, f.lockErr = time.Now().Add(lockPause), err
	}
	return unlock, err
}

// newest returns the state to go on from: the one in memory, when it could not
// be written, unless the file has moved on since. requires mu.
func (f *file) newest(doc document, key string) State {
	stored := doc.Breakers[key]
	if s, ok := f.pending[key]; ok && s.Generation >= stored.Generation {
		return s
	}
	return stored
}

// remember applies fn in memory alone. requires mu.
func (f *file) remember(doc document, key string, fn func(State, time.Time) State) State {
	s := fn(f.newest(doc, key), time.Now())
	f.pending[key] = s
	return s
}

// read returns the document; a missing file is an empty one.
func (f *file) read() (document, error) {
	// Without O_NONBLOCK a named pipe put at path would hang the run.
	r, err := os.OpenFile(f.path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, os.ErrNotExist) {
		return document{}, nil
	}
	if err != nil {
		return document{}, fmt.Errorf("read breaker state: %w", err)
	}
	defer func() { _ = r.Close() }() // read only: nothing can be lost
	info, err := r.Stat()
	switch {
	case err != nil:
		return document{}, fmt.Errorf("read breaker state: %w", err)
	case info.IsDir():
		// Somebody's directory is not ours to move away.
		return document{}, fmt.Errorf("read breaker state: %s is a directory", f.path)
	case !info.Mode().IsRegular():
		return document{}, errCorrupt
	}
	data, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return document{}, fmt.Errorf("read breaker state: %w", err)
	}
	return decode(data)
}

// decode reads a state file. Times and counts out of range are left to
// [Config.sane], which knows the bounds.
func decode(data []byte) (document, error) {
	var doc document
	if len(data) > maxFile {
		return document{}, errCorrupt
	}
	if err := json.Unmarshal(data, &doc); err != nil || doc.Version != 1 || len(doc.Breakers) > maxKeys {
		return document{}, errCorrupt
	}
	return doc, nil
}

func (f *file) write(doc document, sync bool) error {
	doc.Version = 1
	data, err := json.Marshal(doc, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("write breaker state: %w", err)
	}
	var fsys disk.FS = disk.OS{}
	if !sync {
		fsys = unsynced{}
	}
	if err := disk.Replace(fsys, f.path, append(data, '\n')); err != nil {
		return fmt.Errorf("write breaker state: %w", err)
	}
	return nil
}

// unsynced is the machine's file system without the syncs: what is replaced on
// it survives the process, but not a power cut. A sync for each failure that is
// counted would hold up the results of a whole run.
type unsynced struct{ disk.OS }

func (u unsynced) OpenFile(name string, flag int, perm fs.FileMode) (disk.File, error) {
	f, err := u.OS.OpenFile(name, flag, perm)
	return unsyncedFile{f}, err
}

func (unsynced) SyncDir(string) error { return nil }

type unsyncedFile struct{ disk.File }

func (unsyncedFile) Sync() error { return nil }

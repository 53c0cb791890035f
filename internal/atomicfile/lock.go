// Package atomicfile takes locks on files that the kernel frees when the process
// ends, however it ends.
package atomicfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"regexp"
	"sync"
	"time"

	"github.com/gofrs/flock"
)

// ErrLocked reports that someone else, in this process or another, holds a lock.
var ErrLocked = errors.New("locked by another process")

// LockedError is the error of a lock that is taken. It is ErrLocked for errors.Is.
type LockedError struct {
	Path   string
	Holder string // who has it, for people: printable, never empty
}

func (e *LockedError) Error() string { return fmt.Sprintf("lock %s: held by %s", e.Path, e.Holder) }

// Is tells that the error is ErrLocked.
func (e *LockedError) Is(target error) bool { return target == ErrLocked }

// held keeps every lock taken reachable. A lock is an open file, and a file
// nobody refers to is closed by the garbage collector: a caller that means to
// hold its lock to the end and drops unlock would lose it in mid-run.
var held sync.Map

// TryLock takes the lock file at path, creating it with mode 0600, and fails
// with a *LockedError when it is taken. The lock lasts until unlock is called or
// the process ends; the file stays. The lock excludes other holders inside the
// same process, too. unlock may be called more than once.
//
// who, "upload" for example, is written into the file together with process,
// host and time, for the error of those who come later; "" writes nothing. The
// lock itself is the kernel's and never depends on that text.
func TryLock(path, who string) (unlock func() error, err error) {
	unlock, err = take(path, who)
	if unlock == nil && err == nil {
		err = &LockedError{path, holder(path)}
	}
	return unlock, err
}

// Lock is TryLock that waits while the lock is taken. When ctx ends first the
// error wraps both the *LockedError and the cause. An ended ctx still gets one try.
func Lock(ctx context.Context, path, who string) (unlock func() error, err error) {
	// The kernel's own waiting cannot be interrupted, hence asking again. The
	// pause is random because waiters in step with each other starve.
	for pause := time.Millisecond; ; pause = min(2*pause, 16*time.Millisecond) {
		unlock, err = take(path, who)
		if unlock != nil || err != nil {
			return unlock, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", &LockedError{path, holder(path)}, context.Cause(ctx))
		case <-time.After(pause/4 + rand.N(pause)):
		}
	}
}

// take takes the lock, or returns nothing at all when it is taken.
func take(path, who string) (unlock func() error, err error) {
	// A pipe of that name would be waited for.
	if info, err := os.Stat(path); err == nil && info.Mode()&os.ModeNamedPipe != 0 {
		return nil, fmt.Errorf("lock %s: is a pipe", path)
	}
	l := flock.New(path)
	ok, err := l.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	if !ok {
		return nil, nil
	}
	held.Store(l, nil)
	if who != "" {
		sign(path, who)
	}
	return func() error {
		if err := l.Unlock(); err != nil {
			return fmt.Errorf("unlock %s: %w", path, err)
		}
		held.Delete(l)
		return nil
	}, nil
}

// sign says in the lock file who holds it. That is information only: on a full
// disk or in a read-only file there is none. The file is emptied first, so that
// then it does not name the holder before.
func sign(path, who string) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return
	}
	host, err := os.Hostname()
	if err != nil {
		host = "?"
	}
	since := time.Now().UTC().Format(time.RFC3339)
	_, _ = fmt.Fprintf(f, "pid=%d host=%s command=%s since=%s\n", os.Getpid(), host, who, since)
	_ = f.Close()
}

// signature is what sign writes. The end of the line is part of it: a line that
// is being written makes no sense yet.
var signature = regexp.MustCompile(`^pid=([0-9]+) host=([!-~]+) command=([!-~]+) since=[0-9]{4}-[0-9]{2}-[0-9]{2}T([0-9:]{8}Z)\n$`)

const maxSignature = 256

// holder tells who signed the lock file last. Whoever comes between the taking
// of a lock and the signing reads the holder before, or nothing.
func holder(path string) string {
	const unknown = "another process"
	f, err := os.Open(path)
	if err != nil {
		return unknown
	}
	defer func() { _ = f.Close() }() // read only: nothing can be lost
	text, err := io.ReadAll(io.LimitReader(f, maxSignature))
	m := signature.FindSubmatch(text)
	if err != nil || m == nil {
		return unknown
	}
	return fmt.Sprintf("pid %s on %s (%s, since %s)", m[1], m[2], m[3], m[4])
}

package atomicfile

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/gofrs/flock"
)

// ErrLocked reports that someone else, in this process or another, holds a lock.
var ErrLocked = errors.New("locked by another process")

// held keeps every lock taken reachable. A lock is an open file, and a file
// nobody refers to is closed by the garbage collector: a caller that means to
// hold its lock to the end and drops unlock would lose it in mid-run.
var held sync.Map

// TryLock takes the lock file at path, creating it with mode 0600, and fails
// with ErrLocked when it is taken. The lock lasts until unlock is called or the
// process ends; the file stays. The lock excludes other holders inside the same
// process, too. unlock may be called more than once.
func TryLock(path string) (unlock func() error, err error) {
	l := flock.New(path)
	ok, err := l.TryLock()
	switch {
	case err != nil:
		return nil, fmt.Errorf("lock %s: %w", path, err)
	case !ok:
		return nil, fmt.Errorf("lock %s: %w", path, ErrLocked)
	}
	held.Store(l, nil)
	return func() error {
		if err := l.Unlock(); err != nil {
			return fmt.Errorf("unlock %s: %w", path, err)
		}
		held.Delete(l)
		return nil
	}, nil
}

// Lock is TryLock that waits while the lock is taken. When ctx ends first the
// error wraps both ErrLocked and the cause. An ended ctx still gets one try.
func Lock(ctx context.Context, path string) (unlock func() error, err error) {
	// The kernel's own waiting cannot be interrupted, hence asking again. The
	// pause is random because waiters in step with each other starve.
	for pause := time.Millisecond; ; pause = min(2*pause, 16*time.Millisecond) {
		unlock, err = TryLock(path)
		if !errors.Is(err, ErrLocked) {
			return unlock, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", err, context.Cause(ctx))
		case <-time.After(pause/4 + rand.N(pause)):
		}
	}
}

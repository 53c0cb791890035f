package disktest

import (
	"errors"
	"io"
	"io/fs"
)

// Kind is what an operation does.
type Kind string

// The operations that change something or make it durable.
const (
	Write    Kind = "write"
	Sync     Kind = "sync"
	Truncate Kind = "truncate"
	Create   Kind = "create"
	Mkdir    Kind = "mkdir"
	Rename   Kind = "rename"
	Remove   Kind = "remove"
	SyncDir  Kind = "syncdir"
)

// Op is one operation on the disk.
type Op struct {
	Kind  Kind
	Name  string // path; where a rename leads to
	N     int64  // counts all operations of the disk, from 1
	Bytes int    // of a write
}

// Torn is an error that lets a part of a write happen.
type Torn struct {
	Bytes int   // that are written
	Err   error // what Write returns; nil: io.ErrShortWrite
}

func (t *Torn) Error() string { return t.Unwrap().Error() }

// Unwrap returns the error that Write returns.
func (t *Torn) Unwrap() error {
	if t.Err == nil {
		return io.ErrShortWrite
	}
	return t.Err
}

// Hook lets fn see every operation before it happens. If fn returns an error,
// the operation returns it, in an *fs.PathError, instead of happening; a *Torn
// lets a part of it happen. fn is called without locks; it may use the disk,
// also to end the process that the operation belongs to. nil takes it away.
func (d *Disk) Hook(fn func(Op) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hook = fn
}

// do runs act, with the lock held, as the operation op of a process. n is how
// much of a write is to happen.
func (p process) do(op Op, act func(n int) error) error {
	d := p.d
	d.mu.Lock()
	if d.process != p.id {
		d.mu.Unlock()
		return ErrDead
	}
	d.ops++
	op.N = d.ops
	hook := d.hook
	d.mu.Unlock()
	var err error
	if hook != nil {
		err = hook(op)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if torn, ok := errors.AsType[*Torn](err); ok && op.Kind == Write {
		_ = act(min(torn.Bytes, op.Bytes)) // what the hook says counts
		return torn.Unwrap()
	}
	if err == nil && d.process != p.id {
		err = ErrDead
	}
	if err != nil {
		return err
	}
	return act(op.Bytes)
}

// fault wraps what went wrong as the os package does.
func fault(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

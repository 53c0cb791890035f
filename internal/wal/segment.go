package wal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"trafficup/internal/disk"
)

// segment is what Expire has to know of one.
type segment struct {
	seq     uint64
	created int64 // unix seconds
}

// tail is the segment that is written to.
type tail struct {
	f      disk.File
	name   string // path
	seq    uint64
	seed   uint32 // of its frames' checksums
	size   int64  // bytes written
	synced int64  // bytes known to be on disk
}

// begin makes segment seq, durable with its header and by name, and lets it be
// the one that is written to.
func (l *Log) begin(seq uint64) error {
	h := header{seq: seq, created: time.Now().Unix()}
	if _, err := io.ReadFull(l.o.Rand, h.salt[:]); err != nil {
		return fmt.Errorf("salt for a segment: %w", err)
	}
	t := tail{name: filepath.Join(l.dir, fileName(seq)), seq: seq, seed: h.seed()}
	var err error
	t.f, err = l.o.FS.OpenFile(t.name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("begin segment %s: %w", fileName(seq), err)
	}
	err = t.write(h.encode())
	if err == nil {
		err = t.sync()
	}
	if err == nil {
		err = l.o.FS.SyncDir(l.dir)
	}
	if err != nil {
		_ = t.f.Close()
		_ = l.o.FS.Remove(t.name) // if it stays, Open takes it for what it is
		return fmt.Errorf("begin segment %s: %w", fileName(seq), err)
	}
	l.tail = t
	l.mu.Lock()
	l.segments = append(l.segments, segment{seq, h.created})
	l.mu.Unlock()
	return nil
}

func (t *tail) write(p []byte) error {
	n, err := t.f.Write(p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(t.name), err)
	}
	t.size += int64(n)
	return nil
}

// sync makes all that was written durable.
func (t *tail) sync() error {
	if t.size == t.synced {
		return nil
	}
	if err := t.f.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", filepath.Base(t.name), err)
	}
	t.synced = t.size
	return nil
}

// cut takes the segment back to what is known to be on disk, as far as that
// goes, and closes it.
func (t *tail) cut() {
	if t.f.Truncate(t.synced) == nil {
		_ = t.f.Sync()
	}
	_ = t.f.Close()
}

// Expire removes the segments in which nothing was written at or after before,
// those whose successor was created earlier than that, oldest first, and syncs
// the directory. The last segment stays. It returns how many were removed,
// also with an error.
func (l *Log) Expire(before time.Time) (removed int, err error) {
	l.expiring.Lock()
	defer l.expiring.Unlock()
	l.mu.Lock()
	segments, closed := l.segments, l.closed
	l.mu.Unlock()
	if closed {
		return 0, ErrClosed
	}
	// Times are kept in whole seconds, rounded down; so is before. A clock that was
	// wrong for a while makes no segment older than those before it.
	newest := int64(0)
	if c := segments[0].created; c <= time.Now().Unix() {
		newest = c
	}
	for err == nil && removed+1 < len(segments) {
		if newest = max(newest, segments[removed+1].created); newest >= before.Unix() {
			break
		}
		err = l.o.FS.Remove(filepath.Join(l.dir, fileName(segments[removed].seq)))
		if errors.Is(err, os.ErrNotExist) {
			err = nil
		}
		if err == nil {
			removed++
		}
	}
	if removed == 0 {
		return 0, err
	}
	l.mu.Lock()
	l.segments = l.segments[removed:]
	l.mu.Unlock()
	return removed, errors.Join(err, l.o.FS.SyncDir(l.dir))
}

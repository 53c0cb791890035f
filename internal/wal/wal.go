// Package wal is an append-only log of frames in segment files: one sync for
// all who wait, a torn tail cut at open, a damaged middle reported and skipped.
//
// A frame whose done was called with nil is there after a power cut, and so is
// every frame before it. docs/formats.md describes the files.
package wal

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"trafficup/internal/disk"
)

// MaxFrame is the length of the longest payload, in bytes.
const MaxFrame = 1 << 20

var (
	// ErrTooLong is wrapped by Append's answer to a payload over MaxFrame.
	ErrTooLong = errors.New("payload is too long for the log")
	// ErrEmpty is Append's answer to a payload of no bytes: a run of zeros,
	// which crashes leave in files, must not read as frames.
	ErrEmpty = errors.New("payload is empty")
	// ErrClosed is the answer of a log that was closed.
	ErrClosed = errors.New("log is closed")
)

// Options say how a log is written. The zero value is usable.
type Options struct {
	FS          disk.FS       // nil: disk.OS{}
	SegmentSize int64         // bytes; 0: 8 MiB. A segment is closed when the next frame would not fit; one frame alone may be larger
	SegmentAge  time.Duration // at Open, a last segment older than this is not appended to any more; 0: 24h
	Delay       time.Duration // how long an append may wait for company before its sync; 0: none
	Rand        io.Reader     // salts, read from the log's goroutine, too; nil: crypto/rand
}

func (o Options) filled() Options {
	if o.FS == nil {
		o.FS = disk.OS{}
	}
	if o.SegmentSize == 0 {
		o.SegmentSize = 8 << 20
	}
	if o.SegmentAge == 0 {
		o.SegmentAge = 24 * time.Hour
	}
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
	return o
}

// Pos is where a frame begins.
type Pos struct {
	Segment uint64 // its number, from 1
	Offset  int64  // in bytes from the beginning of the segment's file
}

// Damage is a part of a segment that could not be read.
type Damage struct {
	File          string // path of the segment
	Offset, Bytes int64
	Reason        string
}

// Report is what was found in a log.
type Report struct {
	Segments int      // files
	Frames   int64    // good ones
	Bytes    int64    // of their payloads
	Torn     []Damage // at the tail of the last segment: cut by Open, left by Read
	Damaged  []Damage // anywhere else; left in the file
}

// Log is a log open for appending. It is safe for concurrent use, but only one
// Log may be open on a directory at a time; the caller sees to that.
type Log struct {
	dir   string
	o     Options
	tail  tail          // the segment being written; touched by Open, then by run alone
	wake  chan struct{} // holds one; tells run to look again
	ended chan struct{} // closed when run has returned

	mu       sync.Mutex
	pending  batch     // guarded by mu; appended, not yet taken by run
	since    time.Time // guarded by mu; when the first waiting frame of pending came, zero if none waits
	asked    bool      // guarded by mu; Sync was called
	closed   bool      // guarded by mu
	err      error     // guarded by mu; why the log failed, for good
	segments []segment // guarded by mu; oldest first, the last one is written to

	expiring sync.Mutex // held by Expire; taken before mu
}

// batch is a number of frames to be written together.
type batch struct {
	buf    []byte  // the frames, their checksums not yet filled in: they depend on the segment
	frames []frame // in the order of buf
	sync   bool    // to be synced even if no frame waits
}

type frame struct {
	size int // bytes in buf, with its head
	done func(error)
}

// Append takes a copy of payload into the log and does not wait for the disk;
// how much is on its way there is for the caller to bound. done, which may be
// nil, is called once, from the log's goroutine, in the order of the appends,
// when the frame is on disk or with the error for which the log failed; then
// the frame may be there or not. A frame without done is written at once and
// synced with the next that has one, at Sync or at Close. Append returns an
// error, and does not call done, when the log is closed (ErrClosed) or failed
// before, or the payload is over MaxFrame (ErrTooLong) or empty (ErrEmpty).
// done must not call Close.
func (l *Log) Append(payload []byte, done func(error)) error {
	if len(payload) == 0 {
		return ErrEmpty
	}
	if len(payload) > MaxFrame {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrTooLong, len(payload), MaxFrame)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return ErrClosed
	}
	if l.err != nil {
		return l.err
	}
	b := &l.pending
	b.buf = binary.LittleEndian.AppendUint32(b.buf, uint32(len(payload)))
	b.buf = append(b.buf, 0, 0, 0, 0)
	b.buf = append(b.buf, payload...)
	b.frames = append(b.frames, frame{headSize + len(payload), done})
	first := done != nil && l.since.IsZero()
	if first {
		l.since = time.Now()
	}
	if first || len(b.frames) == 1 {
		l.signal()
	}
	return nil
}

// Sync asks for the sync of all that was appended now instead of after Delay.
// It does not wait for it.
func (l *Log) Sync() {
	l.mu.Lock()
	l.asked = true
	l.mu.Unlock()
	l.signal()
}

// Close writes and syncs what is left and ends the log's goroutine; all dones
// have been called when it returns. Later Appends return ErrClosed. The error is
// the one for which the log failed, now or before. It may be called again.
func (l *Log) Close() error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.signal()
	<-l.ended
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

func (l *Log) signal() {
	select {
	case l.wake <- struct{}{}:
	default: // run is going to look anyway
	}
}

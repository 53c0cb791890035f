// Package source opens the night's files and splits them into records.
//
// Compression, encoding and format are told by content, never by name. A file
// is split first and its records are judged one by one: what cannot be framed
// as a record is a Reject with its place, and reading goes on behind it. What
// concerns a file as a whole is one FileError. Memory is bounded by the record
// limit, whatever the input unfolds to.
package source

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Causes of a FileError, for errors.Is.
var (
	ErrEmpty     = errors.New("no records")
	ErrTruncated = errors.New("truncated")
	ErrRefused   = errors.New("refused")
)

const (
	defaultMaxRecord = 1 << 20
	maxSample        = 1 << 10
)

// Position says where a record begins.
type Position struct {
	File   string
	Line   int64 // physical, from 1, blank lines included
	Offset int64 // in bytes, in the decompressed stream; of the UTF-8 text where the file is UTF-16
}

// Item is one record or one reject.
type Item struct {
	Position
	Raw    []byte  // the record as JSON; valid until the next call of Next
	Reject *Reject // not nil: what stands here is no record, and Raw is nil
}

// Reject says why something cannot be framed as a record.
type Reject struct {
	Reason string // printable
	Sample []byte // the first bytes, at most 1 KiB; the caller's to keep
	Offset int64  // of the fault inside the record, -1 unknown
	CutOff bool   // the end of the file cut it off: it may be whole another time
}

// Options of Open. The zero value is usable for files.
type Options struct {
	Format     string    // "" or auto, ndjson, json (an array), csv, tsv
	DeriveKeys bool      // a CSV without the key column gets derived keys
	MaxRecord  int       // bytes, default 1 MiB
	Stdin      io.Reader // what "-" reads

	// Settle is how long a file that ends in the middle of a line must have been
	// left alone before it is read; Open waits for that, at most ten times as
	// long, or until Stop is closed. 0 reads at once; a nil Stop is never closed.
	Settle time.Duration
	Stop   <-chan struct{}
}

// FileError concerns a file as a whole: missing, unreadable, refused, empty,
// truncated. Records given before it stand.
type FileError struct {
	File, Reason, Hint string
	Err                error
}

func (e *FileError) Error() string {
	if e.File == "" {
		return e.Reason
	}
	return shown(e.File) + ": " + e.Reason
}

func (e *FileError) Unwrap() error { return e.Err }

// shown is a text from outside that fits on one line.
func shown(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) >= 0 {
		return strconv.Quote(s)
	}
	return s
}

// sample keeps the beginning of a record.
func sample(b []byte) []byte {
	return append([]byte(nil), b[:min(len(b), maxSample)]...)
}

func tooLong(size int64, limit int) string {
	return fmt.Sprintf("longer than a record may be: %d bytes, at most %d", size, limit)
}

// splitter finds the records of one format. Its end is io.EOF or an error that
// concerns the file.
type splitter interface{ next() (Item, error) }

// Next returns the next record or reject. At the end it returns io.EOF, or a
// *FileError after which there is only io.EOF.
func (r *Reader) Next() (Item, error) {
	if r.ended {
		return Item{}, io.EOF
	}
	it, err := r.split.next()
	if err != nil {
		r.ended = true
		return Item{}, r.finish(err)
	}
	r.items++
	it.File = r.name
	return it, nil
}

// finish explains the end of the file.
func (r *Reader) finish(end error) error {
	f, ok := errors.AsType[*FileError](end)
	switch {
	case ok && !errors.Is(f, ErrTruncated):
		f.File = r.name
		return f
	case r.lines.err != nil: // a stream that broke explains a cut-off record, not the other way round
		return r.broken(r.lines.err)
	case ok:
		f.File = r.name
		return f
	case end != io.EOF:
		return &FileError{File: r.name, Reason: end.Error(), Err: end}
	}
	if changed := r.changed(); changed != nil {
		return changed
	}
	if r.items == 0 {
		return &FileError{File: r.name, Reason: "empty: no records", Err: ErrEmpty}
	}
	return io.EOF
}

func truncated(what string) error {
	return &FileError{Reason: "truncated: " + what, Hint: "wait until the file is written, then run again", Err: ErrTruncated}
}

func refused(hint, format string, args ...any) *FileError {
	return &FileError{Reason: fmt.Sprintf(format, args...), Hint: hint, Err: ErrRefused}
}

package source

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
)

// Reader gives the records of one file, in order. Not safe for concurrent use,
// except Size.
type Reader struct {
	name  string
	file  *os.File // nil for stdin
	sum   string
	total int64 // bytes as stored, 0 unknown
	count atomic.Int64
	stop  func() // releases the decompressor

	lines *lines
	split splitter
	items int64
	ended bool
}

// Open opens a file, or stdin for "-", and finds out what it is. The error is a
// *FileError. Opening a named pipe waits for its writer, opening a file for the
// end of a line that is being written (see Options.Settle).
//
// A regular file is read up to the size it has then: what SHA256 is the sum of. If it
// has another size at its end, Next says so after the last record.
func Open(name string, o Options) (*Reader, error) {
	if o.MaxRecord <= 0 {
		o.MaxRecord = defaultMaxRecord
	}
	r := &Reader{name: name, stop: func() {}}
	raw, err := r.open(o)
	if err == nil {
		err = r.detect(raw, o)
	}
	if err == nil {
		return r, nil
	}
	r.Close()
	f, ok := errors.AsType[*FileError](err)
	switch {
	case r.lines != nil && r.lines.err != nil:
		f = r.broken(r.lines.err)
	case !ok:
		f = openError(name, err)
	}
	f.File = name
	return nil, f
}

func (r *Reader) open(o Options) (io.Reader, error) {
	if r.name == "-" {
		if o.Stdin == nil {
			return nil, refused("", "no standard input here")
		}
		return counter{o.Stdin, &r.count}, nil
	}
	if o.Settle > 0 {
		settle(func() look { return lookAt(r.name) }, o.Settle, o.Stop)
	}
	f, err := os.Open(r.name)
	if err != nil {
		return nil, err
	}
	r.file = f
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return nil, refused("", "is a directory")
	}
	if !info.Mode().IsRegular() {
		return counter{f, &r.count}, nil
	}
	h := sha256.New()
	if r.total, err = io.Copy(h, io.LimitReader(f, info.Size())); err != nil {
		return nil, err
	}
	r.sum = hex.EncodeToString(h.Sum(nil))
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	return counter{io.LimitReader(f, r.total), &r.count}, nil
}

// detect builds the chain from the stored bytes to the splitter.
func (r *Reader) detect(raw io.Reader, o Options) error {
	plain, stop, err := decompress(bufio.NewReaderSize(raw, 1<<16))
	if err != nil {
		return err
	}
	r.stop = stop
	text, err := decodeText(plain)
	if err != nil {
		return err
	}
	r.lines = newLines(text, o.MaxRecord)
	r.split, err = newSplitter(r.name, r.lines, o)
	return err
}

// changed tells whether the file is another one than at Open.
func (r *Reader) changed() *FileError {
	if r.sum == "" {
		return nil
	}
	info, err := r.file.Stat()
	if err != nil || info.Size() == r.total && r.count.Load() == r.total {
		return nil
	}
	return &FileError{
		File:   r.name,
		Reason: fmt.Sprintf("still being written: %d bytes at first, %d at the end", r.total, info.Size()),
		Hint:   "run again when the file is whole; what was sent is not sent twice",
		Err:    ErrTruncated,
	}
}

// broken explains a read error in the middle of a file.
func (r *Reader) broken(err error) *FileError {
	if f, ok := errors.AsType[*FileError](err); ok {
		f.File = r.name
		return f
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return &FileError{
			File: r.name, Reason: "truncated: the compressed data ends early",
			Hint: "fetch the file again, then run again", Err: ErrTruncated,
		}
	}
	f := openError(r.name, err)
	f.Reason = fmt.Sprintf("read stopped at byte %d of the text: %s", r.lines.off, shown(f.Reason))
	return f
}

// SHA256 is the hex sum of the file as stored, "" for what cannot be read twice.
func (r *Reader) SHA256() string { return r.sum }

// Size returns how many bytes, as stored, were read and how many there are, 0 if
// unknown. Safe for concurrent use.
func (r *Reader) Size() (read, total int64) { return r.count.Load(), r.total }

// Close frees the file. Stdin stays open.
func (r *Reader) Close() error {
	r.stop()
	r.stop = func() {}
	if r.file == nil {
		return nil
	}
	return r.file.Close()
}

type counter struct {
	io.Reader
	n *atomic.Int64
}

func (c counter) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n.Add(int64(n))
	return n, err
}

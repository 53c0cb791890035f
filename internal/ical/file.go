package ical

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Largest is the size of a file that is read.
const Largest = 1 << 20

// ahead is how far a file's times are known. They are counted again each day.
const ahead = 400 * 24 * time.Hour

// patience is how long a file is waited for: its file system may hang.
const patience = 2 * time.Second

// File is a calendar on disk. It is safe for concurrent use.
type File struct {
	path  string
	local *time.Location
	spans atomic.Pointer[Spans]

	reading  sync.Mutex // guards what follows
	calendar Calendar
	info     os.FileInfo // of what was read last
	counted  time.Time   // for when the times were
}

// Open reads a file for decisions from then on. local is the zone of times that name
// none. Errors name the file, and the line where one is at fault; with one the file
// names no times until Renew can read it.
func Open(path string, local *time.Location, from time.Time) (*File, error) {
	f := &File{path: path, local: local}
	f.spans.Store(&Spans{})
	_, err := f.Renew(from)
	return f, err
}

// Span is that of [Spans] as they are known.
func (f *File) Span(t time.Time) (start, end time.Time) { return f.spans.Load().Span(t) }

// Renew reads the file again if it changed. When it cannot be used, what was known
// stays, and the error says why. A file system that hangs is not waited for: what
// comes of it late counts all the same.
func (f *File) Renew(now time.Time) (changed bool, err error) {
	hangs := fmt.Errorf("calendar %s: not read in %v: its file system does not answer", f.path, patience)
	if !f.reading.TryLock() {
		return false, hangs
	}
	type renewed struct {
		changed bool
		err     error
	}
	read := make(chan renewed, 1)
	go func() {
		changed, err := f.renew(now)
		f.reading.Unlock()
		read <- renewed{changed, err}
	}()
	select {
	case r := <-read:
		return r.changed, r.err
	case <-time.After(patience):
		return false, hangs
	}
}

func (f *File) renew(now time.Time) (changed bool, err error) {
	info, err := os.Stat(f.path)
	if err != nil {
		return false, fmt.Errorf("calendar: %w", err)
	}
	if f.info != nil && info.ModTime().Equal(f.info.ModTime()) && info.Size() == f.info.Size() {
		if now.Sub(f.counted).Abs() < 24*time.Hour {
			return false, nil
		}
		return false, f.count(f.calendar, now)
	}
	c, err := f.read(info)
	if err != nil {
		return false, err
	}
	if err := f.count(c, now); err != nil {
		return false, err
	}
	f.info, f.calendar = info, c
	return true, nil
}

func (f *File) read(info os.FileInfo) (Calendar, error) {
	if !info.Mode().IsRegular() {
		return Calendar{}, fmt.Errorf("calendar %s: is no regular file", f.path)
	}
	r, err := os.Open(f.path)
	if err != nil {
		return Calendar{}, fmt.Errorf("calendar: %w", err)
	}
	data, err := io.ReadAll(io.LimitReader(r, Largest+1))
	if err = errors.Join(err, r.Close()); err == nil && len(data) > Largest {
		err = fmt.Errorf("is larger than %d bytes", Largest)
	}
	c := Calendar{}
	if err == nil {
		c, err = Parse(data, f.local)
	}
	if err != nil {
		return c, fmt.Errorf("calendar %s: %w", f.path, err)
	}
	return c, nil
}

// count counts the times of c anew.
func (f *File) count(c Calendar, now time.Time) error {
	s, err := c.Spans(now.Add(-longest), now.Add(ahead))
	if err != nil {
		return fmt.Errorf("calendar %s: %w", f.path, err)
	}
	f.spans.Store(&s)
	f.counted = now
	return nil
}

package wal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"trafficup/internal/disk"
)

// Read visits every good frame of the log in dir, oldest first; the payload is
// valid during the call only, and an error of visit ends Read with it. It
// changes nothing and may run while a Log, also of another process, appends:
// what is being written then shows as torn. A missing directory is an empty log.
func Read(fsys disk.FS, dir string, visit func(Pos, []byte) error) (Report, error) {
	r := reader{fsys: fsys, dir: dir, visit: visit}
	err := r.all()
	if errors.Is(err, errNoDir) {
		err = nil
	}
	return r.report, err
}

// errNoDir tells a missing directory from whatever visit returns.
var errNoDir = errors.New("no such log")

// reader reads the segments of a directory.
type reader struct {
	fsys   disk.FS
	dir    string
	visit  func(Pos, []byte) error
	buf    []byte // holds the segment at hand
	report Report
	found  []found
}

// found is a segment as it was read.
type found struct {
	segment
	path  string
	seed  uint32
	sound bool  // its header is good
	end   int64 // of its last good frame
	size  int64
}

// all reads every segment.
func (r *reader) all() error {
	entries, err := r.fsys.ReadDir(r.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return errNoDir
	}
	if err != nil {
		return fmt.Errorf("read log: %w", err)
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool {
		_, ok := parseName(e.Name())
		return !ok || e.IsDir()
	})
	before := uint64(0)
	for i, e := range entries {
		seq, _ := parseName(e.Name())
		if i > 0 && seq != before+1 { // the oldest expire, others do not go
			gone := Damage{File: filepath.Join(r.dir, fileName(before+1)), Reason: "missing"}
			r.report.Damaged = append(r.report.Damaged, gone)
		}
		before = seq
		if err := r.segment(seq, i == len(entries)-1); err != nil {
			return err
		}
	}
	return nil
}

// What is said of a part that cannot be read.
const (
	badHeader   = "not a whole, sound header"
	otherHeader = "the header is another segment's"
	badFrame    = "not a whole, sound frame"
)

// segment reads one.
func (r *reader) segment(seq uint64, last bool) error {
	path := filepath.Join(r.dir, fileName(seq))
	data, size, err := r.load(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // expired since the directory was read
	}
	if err != nil {
		return fmt.Errorf("read segment: %w", err)
	}
	h, sound := decodeHeader(data)
	s := found{segment{seq, h.created}, path, h.seed(), sound, headerSize, size}
	reason := badFrame
	switch {
	case !sound: // the salt may be good nevertheless, and the frames with it
		s.end, reason = 0, badHeader
	case h.seq != seq: // its frames belong elsewhere
		s.sound, s.end, reason = false, 0, otherHeader
	}
	if reason != otherHeader {
		if s.end, reason, err = r.frames(s, data, reason); err != nil {
			return err
		}
	}
	if s.end < s.size || s.size == 0 {
		tail := Damage{path, s.end, s.size - s.end, reason}
		if last && (s.sound || s.unborn()) {
			r.report.Torn = append(r.report.Torn, tail)
		} else {
			r.report.Damaged = append(r.report.Damaged, tail)
		}
	}
	r.report.Segments++
	r.found = append(r.found, s)
	return nil
}

// frames visits the good frames of s and reports what lies between them. It
// returns where the last one ends, s.end if there is none, and what is wrong
// with anything behind that.
func (r *reader) frames(s found, data []byte, reason string) (end int64, why string, err error) {
	f := finder{data: data, seed: s.seed}
	for pos := headerSize; pos < len(data); {
		p := payload(data[pos:], s.seed)
		if p == nil {
			pos = f.next(pos + 1)
			continue
		}
		if s.end < int64(pos) {
			r.report.Damaged = append(r.report.Damaged, Damage{s.path, s.end, int64(pos) - s.end, reason})
		}
		reason = badFrame
		r.report.Frames++
		r.report.Bytes += int64(len(p))
		if err := r.visit(Pos{s.seq, int64(pos)}, p); err != nil {
			return 0, "", err
		}
		pos += headSize + len(p)
		s.end = int64(pos)
	}
	return s.end, reason, nil
}

// unborn says that a crash interrupted the making of the segment.
func (s found) unborn() bool { return !s.sound && s.size <= headerSize }

// maxSegment bounds what is read of a file that calls itself a segment. What
// lies behind is no log of ours, and counts as unreadable.
const maxSegment = 64 << 20

// load returns the content of a file, as much as it has now, up to maxSegment.
// It is valid until the next load.
func (r *reader) load(path string) (data []byte, size int64, err error) {
	f, err := r.fsys.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = f.Close() }() // only read
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	n := int(min(info.Size(), maxSegment))
	r.buf = slices.Grow(r.buf[:0], n)[:n]
	n, err = io.ReadFull(f, r.buf)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return r.buf[:n], int64(n), nil // it was cut meanwhile
	}
	return r.buf[:n], info.Size(), err
}

package deadletter

import (
	"crypto/sha256"
	"errors"
	"io"

	"trafficup/internal/disk"
)

// Ref says where a letter stands.
type Ref struct {
	File string
	Line int64 // from 1
}

// Entry is one letter among those of several files.
type Entry struct {
	Letter
	Ref Ref
	// Newest is where the letter stands that counts for the same record: Ref
	// itself, unless a later one has superseded this one.
	Newest Ref
}

// Superseded reports whether a newer letter of the same record exists.
func (e *Entry) Superseded() bool { return e.Newest != e.Ref }

// Scanner reads the letters of several files. A record may have letters in more
// than one: it was uploaded again, or a replay died before it had archived what
// it took. The one that stands last counts, with the generation of the one that
// was replayed most often. A record that was changed is another one. The files
// must not change while the scanner is in use; it is not safe for concurrent use.
type Scanner struct {
	fs     disk.FS
	files  []string
	newest map[identity]standing
	next   int // into files
	r      *Reader
}

// identity is that of a record.
type identity [16]byte

// standing is where the last letter of a record stands. It and the identity are
// all that is kept of a letter: some 65 bytes in a map.
type standing struct {
	generation int // the highest of all
	line       int64
	file       int32
}

// NewScanner reads the files once, to know which letters count. What it cannot
// read it leaves for Next to report.
func NewScanner(fsys disk.FS, files []string) *Scanner {
	s := &Scanner{fs: fsys, files: files, newest: map[identity]standing{}}
	for {
		l, err := s.read()
		if err == io.EOF {
			s.Rewind()
			return s
		}
		if err != nil {
			continue
		}
		id := identify(&l)
		s.newest[id] = standing{max(l.Generation, s.newest[id].generation), s.r.Line(), int32(s.next - 1)}
	}
}

// Next returns the next letter, io.EOF after the last. An error that wraps
// ErrFormat or ErrTorn concerns one line, any other the rest of one file;
// reading may go on.
func (s *Scanner) Next() (Entry, error) {
	l, err := s.read()
	if err != nil {
		return Entry{}, err
	}
	e := Entry{Letter: l, Ref: Ref{s.r.path, s.r.Line()}}
	n := s.newest[identify(&l)]
	e.Newest, e.Generation = Ref{s.files[n.file], n.line}, max(e.Generation, n.generation)
	return e, nil
}

// Rewind begins again with the first letter.
func (s *Scanner) Rewind() {
	_ = s.Close()
	s.next = 0
}

// Close closes the file that is being read. A file that was only read has
// nothing to lose by an error.
func (s *Scanner) Close() error {
	if s.r == nil {
		return nil
	}
	err := s.r.Close()
	s.r = nil
	return err
}

// read returns the next letter of whatever file has one.
func (s *Scanner) read() (Letter, error) {
	for {
		if s.r == nil {
			if s.next == len(s.files) {
				return Letter{}, io.EOF
			}
			r, err := OpenReader(s.fs, s.files[s.next])
			s.next++
			if err != nil {
				return Letter{}, err
			}
			s.r = r
		}
		l, err := s.r.Next()
		if err == nil || errors.Is(err, ErrFormat) || errors.Is(err, ErrTorn) {
			return l, err
		}
		_ = s.Close()
		if err != io.EOF {
			return l, err
		}
	}
}

// identify tells records apart by their keys and bytes: a key may stand for more
// than one record, a mended one or one that contradicts the first.
func identify(l *Letter) (id identity) {
	h := sha256.New()
	h.Write([]byte{byte(len(l.Key)), byte(len(l.Key) >> 8)}) // keeps key and bytes apart
	io.WriteString(h, l.Key)
	h.Write(l.Record())
	copy(id[:], h.Sum(nil))
	return id
}

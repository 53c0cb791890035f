package deadletter

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"trafficup/internal/disk"
)

// maxLetter bounds one line: a record of 1 MiB in base64 and its history.
const maxLetter = 4 << 20

// lines splits a file into lines without ever holding more than one, or more
// than maxLetter bytes of it.
type lines struct {
	br  *bufio.Reader
	buf []byte
}

func newLines(r io.Reader) *lines { return &lines{br: bufio.NewReaderSize(r, 64<<10)} }

// next returns a line with its end, valid until the next call. The last line of
// a file may have none. Of a line that is too long it returns the beginning;
// the caller then takes the rest.
func (l *lines) next() (line []byte, tooLong bool, err error) {
	l.buf = l.buf[:0]
	for {
		part, err := l.br.ReadSlice('\n')
		l.buf = append(l.buf, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull) && len(l.buf) > maxLetter:
			return l.buf, true, nil
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err == io.EOF && len(l.buf) > 0:
			err = nil
		}
		return l.buf, false, err
	}
}

// rest copies what next left of a line that is too long.
func (l *lines) rest(w io.Writer) error {
	for {
		part, err := l.br.ReadSlice('\n')
		if _, werr := w.Write(part); werr != nil {
			return werr
		}
		if err == io.EOF {
			return nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
}

// Reader reads the letters of one file.
type Reader struct {
	path  string
	f     disk.File
	lines *lines
	line  int64
}

// OpenReader opens a file of letters.
func OpenReader(fsys disk.FS, path string) (*Reader, error) {
	f, err := fsys.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	return &Reader{path: path, f: f, lines: newLines(f)}, nil
}

// Next returns the next letter, io.EOF at the end. An error that wraps
// ErrFormat or ErrTorn concerns one line; reading may go on.
func (r *Reader) Next() (Letter, error) {
	for {
		line, tooLong, err := r.lines.next()
		if err != nil {
			return Letter{}, err
		}
		r.line++
		switch {
		case blank(line):
			continue
		case tooLong:
			err = r.lines.rest(io.Discard)
			if err == nil {
				err = fmt.Errorf("%w: longer than %d bytes", ErrFormat, maxLetter)
			}
			return Letter{}, r.at(err)
		}
		l, err := decode(line)
		switch {
		case err != nil && torn(line):
			return l, r.at(ErrTorn)
		case err != nil:
			return l, r.at(err)
		}
		return l, nil
	}
}

func (r *Reader) at(err error) error { return fmt.Errorf("%s:%d: %w", r.path, r.line, err) }

// blank tells the empty lines that stand between letters.
func blank(line []byte) bool { return len(line) == 1 && line[0] == '\n' }

// torn tells a line that begins as a letter does, or as a lost block does, and
// was not written to its end. Any other text is a file of another kind.
func torn(line []byte) bool {
	const begin = `{"v":`
	begins := line[0] == 0 || bytes.HasPrefix(line, []byte(begin[:min(len(begin), len(line))]))
	return begins && line[len(line)-1] != '\n'
}

// Line is the line of the letter returned last, from 1.
func (r *Reader) Line() int64 { return r.line }

// Close closes the file.
func (r *Reader) Close() error { return r.f.Close() }

// Pending returns the files of letters directly in dir, sorted by name, which
// is by the time of their runs; none when dir does not exist.
func Pending(fsys disk.FS, dir string) ([]string, error) {
	entries, err := fsys.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		if !e.IsDir() && strings.HasSuffix(e.Name(), ".ndjson") {
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	return files, nil
}

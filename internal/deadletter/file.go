package deadletter

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
)

// Writer appends letters to one file. It is safe for concurrent use. The file
// is made with the first letter, so a clean night leaves none.
type Writer struct {
	path string

	mu    sync.Mutex
	f     *os.File // guarded by mu
	size  int64    // guarded by mu; bytes known to be whole letters on disk
	count int      // guarded by mu
}

// NewWriter returns a writer to path; its directory must exist.
func NewWriter(path string) *Writer { return &Writer{path: path} }

// Path is where the letters are.
func (w *Writer) Path() string { return w.path }

// Count is the number of letters written.
func (w *Writer) Count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.count
}

// Write appends a letter and returns when it is on disk. After an error the
// file is cut back to its last whole letter.
func (w *Writer) Write(l Letter) error {
	line, err := l.encode()
	if err != nil {
		return fmt.Errorf("encode dead letter: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.f == nil {
		if err := w.open(); err != nil {
			return err
		}
	}
	_, err = w.f.Write(line)
	if err == nil {
		err = w.f.Sync()
	}
	if err != nil {
		return errors.Join(err, w.f.Truncate(w.size))
	}
	w.size += int64(len(line))
	w.count++
	return nil
}

// open makes the file durable by name before the first letter goes in.
func (w *Writer) open() error {
	f, err := os.OpenFile(w.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(w.path))
	if err == nil {
		err = errors.Join(dir.Sync(), dir.Close())
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	w.f = f
	return nil
}

// Close closes the file, if there is one.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.f == nil {
		return nil
	}
	err := w.f.Close()
	w.f = nil
	return err
}

// maxLetter bounds one line: a record of 1 MiB in base64 and its history.
const maxLetter = 4 << 20

// Reader reads letters one by one.
type Reader struct {
	path string
	f    *os.File
	br   *bufio.Reader
	line int64
}

// OpenReader opens a file of letters.
func OpenReader(path string) (*Reader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return &Reader{path: path, f: f, br: bufio.NewReaderSize(f, 64<<10)}, nil
}

// Next returns the next letter, io.EOF at the end. An error that wraps
// ErrFormat concerns one line; reading may go on.
func (r *Reader) Next() (Letter, error) {
	for {
		line, err := r.readLine()
		if len(line) == 0 && err != nil {
			return Letter{}, err
		}
		r.line++
		if len(line) <= 1 {
			continue
		}
		if len(line) > maxLetter {
			return Letter{}, fmt.Errorf("%s:%d: %w: longer than %d bytes", r.path, r.line, ErrFormat, maxLetter)
		}
		l, err := decode(line)
		if err != nil {
			return Letter{}, fmt.Errorf("%s:%d: %w", r.path, r.line, err)
		}
		return l, nil
	}
}

// readLine returns a line of at most maxLetter+1 bytes; the rest of a longer
// one is read and dropped.
func (r *Reader) readLine() ([]byte, error) {
	var line []byte
	for {
		part, err := r.br.ReadSlice('\n')
		if room := maxLetter + 1 - len(line); room > 0 {
			line = append(line, part[:min(len(part), room)]...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err == io.EOF && len(line) > 0:
			return line, nil
		}
		return line, err
	}
}

// Line is the line of the letter returned last.
func (r *Reader) Line() int64 { return r.line }

// Close closes the file.
func (r *Reader) Close() error { return r.f.Close() }

// Archive moves a finished file into archive/ beside it, never over another.
func Archive(path string) (string, error) {
	dir := filepath.Join(filepath.Dir(path), "archive")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	base := filepath.Base(path)
	for n := 0; ; n++ {
		to := filepath.Join(dir, base)
		if n > 0 {
			to = fmt.Sprintf("%s.%d", to, n)
		}
		// A link never replaces a file, a rename does.
		err := os.Link(path, to)
		if errors.Is(err, os.ErrExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		return to, os.Remove(path)
	}
}

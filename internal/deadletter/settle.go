package deadletter

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"trafficup/internal/disk"
)

// Settle moves the letters at these places, with the older ones that they have
// superseded, as the function Settle does, and returns how many. Without a note
// whatever a newer letter has superseded goes, too. A file that
// holds no letter and nothing unreadable goes away too. A file that cannot be
// settled keeps its letters; the error joins what went wrong with each.
func (s *Scanner) Settle(done map[Ref]bool, note *Note) (moved int, err error) {
	lines := make([]map[int64]bool, len(s.files))
	stays := make([]bool, len(s.files))
	for i := range lines {
		lines[i] = map[int64]bool{}
	}
	s.Rewind()
	for {
		e, err := s.Next()
		if err == io.EOF {
			break
		}
		switch i := s.next - 1; {
		case errors.Is(err, ErrTorn):
		case err != nil || !done[e.Newest] && (note != nil || !e.Superseded()):
			stays[i] = true
		default:
			lines[i][e.Ref.Line] = true
		}
	}
	var faults []error
	for i, file := range s.files {
		if len(lines[i]) == 0 && stays[i] {
			continue
		}
		if err := Settle(s.fs, file, lines[i], note); err != nil {
			faults = append(faults, err)
			continue
		}
		moved += len(lines[i])
	}
	return moved, errors.Join(faults...)
}

// Settle moves the letters on these lines of a file (from 1) to the file of the
// same name in archive/ beside it, which is appended to, and removes the file
// when no line is left. What a crash left of a last letter goes to the archive
// with the last letters, and ends it; a line that is no letter stays. With a note
// the archived letters carry it.
//
// A letter that is to move is on disk in the archive before it goes from the
// file. A crash in between leaves it in both: settled again, it is in the
// archive twice, but what the crash tore there goes. Nobody else may write to
// the file meanwhile.
func Settle(fsys disk.FS, file string, done map[int64]bool, note *Note) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("settle %s: %w", file, err)
		}
	}()
	in, err := fsys.OpenFile(file, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer in.Close()
	dir, tmp := filepath.Dir(file), file+".tmp"
	archive := filepath.Join(dir, "archive")
	if err := disk.MakeDir(fsys, archive); err != nil {
		return err
	}
	left := false
	err = fill(fsys, filepath.Join(archive, filepath.Base(file)), os.O_APPEND, func(gone *bufio.Writer) error {
		return fill(fsys, tmp, os.O_TRUNC, func(rest *bufio.Writer) (err error) {
			left, err = split(in, done, note, gone, rest)
			return err
		})
	})
	for _, d := range []string{archive, dir} {
		if err == nil {
			err = fsys.SyncDir(d)
		}
	}
	if err == nil && left {
		err = fsys.Rename(tmp, file)
	} else if err == nil {
		err = fsys.Remove(file)
	}
	if err != nil || !left {
		_ = fsys.Remove(tmp) // the next Settle would write over it
	}
	if err != nil {
		return err
	}
	return fsys.SyncDir(dir)
}

// fill opens a file, and returns when what write added to it is on disk.
func fill(fsys disk.FS, name string, flag int, write func(*bufio.Writer) error) error {
	f, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE|flag, 0o600)
	if err != nil {
		return err
	}
	before, err := f.Stat()
	w := bufio.NewWriterSize(f, 64<<10)
	if err == nil {
		err = endLines(f, w)
	}
	if err == nil {
		err = write(w)
	}
	if err == nil {
		err = w.Flush()
	}
	if err == nil {
		err = f.Sync()
	}
	if err != nil && before != nil {
		_ = f.Truncate(before.Size()) // on a full disk each try would take more of it
	}
	return errors.Join(err, f.Close())
}

// endLines lets what is written next begin a line. A torn letter at the end is
// cut off: it was to come here, and stands whole where it came from. A last line
// of any other kind gets its end.
func endLines(f disk.File, w *bufio.Writer) error {
	ended := true
	for ls := newLines(f); ; {
		line, tooLong, err := ls.next()
		if err == io.EOF && !ended {
			return w.WriteByte('\n')
		}
		if err == io.EOF {
			return nil
		}
		if tooLong {
			err = ls.rest(io.Discard) // its end is not looked for: an empty line does no harm
		}
		if err != nil {
			return err
		}
		ended = line[len(line)-1] == '\n'
		if torn(line) && !tooLong {
			if _, err := decode(line); err != nil {
				return cut(f, len(line))
			}
		}
	}
}

// cut takes so many bytes off the end of a file.
func cut(f disk.File, n int) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return f.Truncate(info.Size() - int64(n))
}

// split writes the letters on these lines to gone and all other lines to rest;
// left reports whether there were any. Errors of the writers come up when they
// are flushed.
func split(in io.Reader, done map[int64]bool, note *Note, gone, rest *bufio.Writer) (left bool, err error) {
	ls := newLines(in)
	for n := int64(1); ; n++ {
		line, tooLong, err := ls.next()
		if err == io.EOF {
			return left, nil
		}
		if err != nil {
			return left, err
		}
		if blank(line) {
			continue
		}
		if !tooLong && (done[n] || torn(line) && !left) {
			if archived := forArchive(line, done[n], note); archived != nil {
				_, _ = gone.Write(archived)
				continue
			}
		}
		left = true
		_, _ = rest.Write(line)
		if tooLong {
			if err := ls.rest(rest); err != nil {
				return left, err
			}
		}
	}
}

// forArchive returns what the archive gets of a line; nil when the line stays.
func forArchive(line []byte, done bool, note *Note) []byte {
	l, err := decode(line)
	switch {
	case err != nil && torn(line):
		return line
	case err != nil || !done:
		return nil
	case note != nil:
		l.Dropped = note
		if line, err = l.Encode(); err != nil {
			return nil
		}
	case line[len(line)-1] != '\n':
		line = append(line, '\n')
	}
	return line
}

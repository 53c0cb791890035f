package source

import (
	"bufio"
	"bytes"
	"io"
)

var bom = []byte("\xef\xbb\xbf")

// lines reads physical lines of any length in bounded memory.
//
// At the start of a line, NULs are skipped (a log truncated under a writer that kept
// its offset begins with a run of them) and so is one byte order mark (as
// left by joining files).
type lines struct {
	br   *bufio.Reader
	max  int
	off  int64  // of the next byte
	no   int64  // of the line that the next byte belongs to
	buf  []byte // lines that do not fit br's buffer
	back []line // to be given again
	err  error  // why reading ended, if not by the end of the file
}

// line is one physical line without its newline.
type line struct {
	text  []byte // cut to a sample when size is over the limit; good until the next call
	no    int64
	off   int64
	size  int64
	ended bool // there was a newline
}

func newLines(r io.Reader, limit int) *lines {
	return &lines{br: bufio.NewReaderSize(r, 1<<16), max: limit, no: 1}
}

// next returns false at the end of the stream, for which see err.
func (l *lines) next() (line, bool) {
	if len(l.back) > 0 {
		ln := l.back[0]
		l.back = l.back[1:]
		return ln, true
	}
	l.lineStart()
	ln := line{no: l.no, off: l.off}
	l.buf = l.buf[:0]
	for {
		frag, err := l.br.ReadSlice('\n')
		l.off += int64(len(frag))
		if err == nil {
			frag = frag[:len(frag)-1]
			ln.ended = true
			l.no++
		}
		ln.size += int64(len(frag))
		switch {
		case ln.size <= int64(len(frag)) && err != bufio.ErrBufferFull && ln.size <= int64(l.max):
			ln.text = frag // the usual case: no copy
		case ln.size <= int64(l.max):
			l.buf = append(l.buf, frag...)
			ln.text = l.buf
		default:
			l.buf = append(l.buf, frag...) // at most one fragment over the limit
			l.buf = l.buf[:min(len(l.buf), maxSample)]
			ln.text = l.buf
		}
		if err == bufio.ErrBufferFull {
			continue
		}
		if err != nil && err != io.EOF {
			l.err = err
		}
		return ln, err == nil || ln.size > 0
	}
}

// lineStart skips what is no part of a line.
func (l *lines) lineStart() {
	for {
		if _, err := l.br.Peek(1); err != nil {
			return
		}
		b, _ := l.br.Peek(l.br.Buffered())
		n := 0
		for n < len(b) && b[n] == 0 {
			n++
		}
		l.drop(n)
		if n < len(b) {
			break
		}
	}
	if b, _ := l.br.Peek(len(bom)); bytes.Equal(b, bom) {
		l.drop(len(bom))
	}
}

func (l *lines) drop(n int) {
	l.br.Discard(n)
	l.off += int64(n)
}

// skipBlank passes over blank lines and returns what follows, as far as it is
// buffered; nothing at the end of the stream.
func (l *lines) skipBlank() []byte {
	for {
		l.lineStart()
		if _, err := l.br.Peek(1); err != nil {
			if err != io.EOF {
				l.err = err
			}
			return nil
		}
		// Only what is there: a pipe may not give more for a long time.
		b, _ := l.br.Peek(l.br.Buffered())
		n := len(b) - len(bytes.TrimLeft(b, " \t\r"))
		switch {
		case n == len(b):
			l.drop(n)
		case b[n] == '\n':
			l.drop(n + 1)
			l.no++
		default:
			return b
		}
	}
}

// peekLine returns the line that comes next, as far as it fits the buffer.
func (l *lines) peekLine() []byte {
	for {
		b, err := l.br.Peek(l.br.Buffered())
		if i := bytes.IndexByte(b, '\n'); i >= 0 {
			return b[:i]
		}
		if err != nil || len(b) == l.br.Size() {
			return b
		}
		if _, err := l.br.Peek(len(b) + 1); err != nil {
			return b
		}
	}
}

// trim cuts the blanks off a line and moves its offset along. A line of nothing
// else, or of the 0x1A with which DOS ended files, is empty then.
func (ln *line) trim() {
	t := bytes.TrimLeft(ln.text, " \t\r")
	ln.off += int64(len(ln.text) - len(t))
	t = bytes.TrimRight(t, " \t\r")
	if !ln.ended || len(bytes.Trim(t, "\x1a")) == 0 {
		t = bytes.TrimRight(t, "\x1a \t\r")
	}
	ln.text = t
}

package source

import (
	"encoding/json/jsontext"
	"io"
)

// ndjson gives each line that is not blank as a record.
type ndjson struct {
	l   *lines
	end error
}

func (s *ndjson) next() (Item, error) {
	for s.end == nil {
		ln, ok := s.l.next()
		if !ok {
			return Item{}, io.EOF
		}
		if ln.size > int64(s.l.max) {
			it := reject(ln, tooLong(ln.size, s.l.max), int64(s.l.max))
			if !ln.ended {
				s.cutOff(&it)
			}
			return it, nil
		}
		ln.trim()
		if len(ln.text) == 0 {
			continue
		}
		if n := len(ln.text) - 1; ln.text[n] == ',' && (ln.text[0] == '{' || ln.text[0] == '[') && whole(ln.text[:n]) {
			return reject(ln, "trailing comma behind the record: only line ends separate records here", int64(n)), nil
		}
		if !ln.ended && !whole(ln.text) {
			it := reject(ln, "cut off: the file ends inside the record", int64(len(ln.text)))
			s.cutOff(&it)
			return it, nil
		}
		return Item{Position: Position{Line: ln.no, Offset: ln.off}, Raw: ln.text}, nil
	}
	return Item{}, s.end
}

func (s *ndjson) cutOff(it *Item) {
	it.Reject.CutOff = true
	s.end = truncated("the last record is cut off")
}

func reject(ln line, reason string, at int64) Item {
	return Item{
		Position: Position{Line: ln.no, Offset: ln.off},
		Reject:   &Reject{Reason: reason, Sample: sample(ln.text), Offset: at},
	}
}

// whole tells whether a value has its end: a container whose brackets balance
// exactly there, or another value that is valid. Whether a whole value is
// right is the envelope's business.
func whole(b []byte) bool {
	if b[0] != '{' && b[0] != '[' {
		return jsontext.Value(b).IsValid()
	}
	var s scan
	for i, c := range b {
		if s.step(c); s.depth == 0 && !s.str {
			return i == len(b)-1
		}
	}
	return false
}

// scan follows strings and brackets, at any depth in the same memory.
type scan struct {
	depth    int
	str, esc bool
	last     byte   // last character outside strings that is no blank
	objects  uint64 // bit n: the container at depth n+1 is an object, for the first 64
}

func (s *scan) step(c byte) {
	if s.str {
		switch {
		case s.esc:
			s.esc = false
		case c == '\\':
			s.esc = true
		case c == '"':
			s.str = false
		}
		return
	}
	switch c {
	case ' ', '\t', '\r', '\n':
		return
	case '"':
		s.str = true
	case '{', '[':
		if s.depth < 64 {
			s.objects &^= 1 << s.depth
			if c == '{' {
				s.objects |= 1 << s.depth
			}
		}
		s.depth++
	case '}', ']':
		s.depth = max(s.depth-1, 0)
	}
	s.last = c
}

// inObject tells whether the innermost container is an object, false if unknown.
func (s *scan) inObject() bool {
	return 0 < s.depth && s.depth <= 64 && s.objects>>(s.depth-1)&1 == 1
}

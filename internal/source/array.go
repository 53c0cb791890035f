package source

import "io"

// array gives each element of a JSON array as a record. A broken element does
// not take the rest along: where its end is not to be found, reading goes on at
// the next place that can only be the start of an element.
type array struct {
	l      *lines
	opened bool
	need   bool // a comma is due
	comma  bool // the last thing read was one
	lost   bool // the start of the next element has to be looked for
	end    error
	buf    []byte
	size   int64
}

func (a *array) next() (Item, error) {
	if !a.opened {
		a.blanks()
		a.read() // '[', as the format says
		a.opened = true
	}
	for a.end == nil {
		if a.lost {
			a.resync()
		}
		c, ok := a.blanks()
		switch {
		case !ok:
			a.end = truncated("the array has no end")
		case c == ']':
			a.read()
			a.close()
		case c == ',' && a.need:
			a.read()
			a.need, a.comma = false, true
		case c == ',':
			it := a.item()
			a.read()
			a.comma = true
			it.Reject = &Reject{Reason: "empty element", Sample: []byte{','}}
			return it, nil
		default:
			return a.element()
		}
	}
	return Item{}, a.end
}

// close looks behind the closing bracket.
func (a *array) close() {
	a.end = io.EOF
	for {
		c, ok := a.blanks()
		switch {
		case !ok && a.comma:
			a.end = refused("", "trailing comma before the closing bracket of the array")
			return
		case !ok:
			return
		case c == 0x1a || c == 0:
			a.read()
		default:
			a.end = refused("", "more text behind the array, line %d", a.l.no)
			return
		}
	}
}

func (a *array) element() (Item, error) {
	it := a.item()
	a.buf, a.size = a.buf[:0], 0
	missing := a.need
	a.need, a.comma = true, false
	why := ""
	var s scan
loop:
	for {
		c, ok := a.peek()
		switch {
		case !ok:
			a.end = truncated("the last record is cut off")
			it.Reject = &Reject{
				Reason: "cut off: the file ends inside the record",
				Sample: sample(a.buf), Offset: a.size, CutOff: true,
			}
			return it, nil
		case s.str && c == '\n':
			why, a.lost = "line end inside a text", true
			break loop
		case !s.str && c == '{' && s.last == ',' && s.inObject():
			// No member begins like this, only an element: a bracket is missing.
			why, a.need = "closing bracket is missing", false
			break loop
		case s.depth == 0 && !s.str && a.size > 0 && (c == ',' || c == ']' || c == ' ' || c == '\t' || c == '\r' || c == '\n'):
			break loop
		}
		a.read()
		a.keep(c)
		if s.step(c); s.depth == 0 && !s.str && (c == '}' || c == ']' || c == '"') {
			break
		}
	}
	switch {
	case why != "":
	case a.size > int64(a.l.max):
		why = tooLong(a.size, a.l.max)
	case missing:
		why = "no comma before this element"
	default:
		it.Raw = a.buf
		return it, nil
	}
	it.Reject = &Reject{Reason: why, Sample: sample(a.buf), Offset: min(a.size, int64(a.l.max))}
	return it, nil
}

// resync drops lines up to one that begins like an element or ends the array.
func (a *array) resync() {
	a.lost, a.need, a.comma = false, false, false
	for {
		c, ok := a.blanks()
		switch {
		case !ok, c == '{':
			return
		case c == ']':
			a.need = true
			return
		case c == ',':
			a.read()
			continue
		}
		for ok && c != '\n' {
			c, ok = a.read()
		}
	}
}

func (a *array) item() Item { return Item{Position: Position{Line: a.l.no, Offset: a.l.off}} }

func (a *array) keep(c byte) {
	if a.size < int64(a.l.max) {
		a.buf = append(a.buf, c)
	}
	a.size++
}

// blanks skips white space and returns the character behind it.
func (a *array) blanks() (byte, bool) {
	for {
		c, ok := a.peek()
		if !ok {
			return 0, false
		}
		switch c {
		case '\n':
			a.read()
			a.l.lineStart()
		case ' ', '\t', '\r':
			a.read()
		default:
			return c, true
		}
	}
}

func (a *array) peek() (byte, bool) {
	b, err := a.l.br.Peek(1)
	if err != nil {
		if err != io.EOF {
			a.l.err = err
		}
		return 0, false
	}
	return b[0], true
}

func (a *array) read() (byte, bool) {
	c, err := a.l.br.ReadByte()
	if err != nil {
		return 0, false
	}
	a.l.off++
	if c == '\n' {
		a.l.no++
	}
	return c, true
}

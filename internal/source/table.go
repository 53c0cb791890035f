package source

import (
	"bytes"
	"encoding/json/jsontext"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/cases"

	"trafficup/internal/envelope"
)

// maxRowLines is how many lines a quoted cell may span.
const maxRowLines = 100

// table reads CSV (RFC 4180) and TSV with a header, and makes a JSON envelope
// of each row. The names of the envelope's members are taken without
// regard to case and outer blanks, those of the payload keep their case.
//
// A quote inside a cell that does not begin with one is text. A cell that begins
// with one must end with its closing quote; otherwise the row's first line is
// rejected and reading goes on at the next line, so that one open quote
// cannot swallow the rows behind it.
type table struct {
	l      *lines
	cells  cells
	names  [][]byte // JSON text of the payload columns, nil for an envelope member
	member map[string]int
	derive bool
	out    []byte
	body   []byte
	end    error
}

var envelopeColumns = []string{"spot_id", "idempotency_key", "market", "station", "air_date"}

func newTable(l *lines, delim byte, o Options) (splitter, error) {
	t := &table{l: l, cells: cells{delim: delim}, member: map[string]int{}}
	ln, ok := l.next()
	if !ok {
		return nil, &FileError{Reason: "empty: no header", Err: ErrEmpty}
	}
	if ln.size > int64(l.max) {
		return nil, refused("", "header is %s", tooLong(ln.size, l.max))
	}
	if open, err := t.cells.feed(ln.text); open || err != nil {
		return nil, refused("", "quotes in the header do not match")
	}
	if !utf8.Valid(ln.text) {
		return nil, refused("convert the file to UTF-8", "header is not UTF-8")
	}
	if err := t.columns(o); err != nil {
		return nil, err
	}
	return t, nil
}

// columns reads the header. What is wrong with it is said once for the file.
func (t *table) columns(o Options) error {
	seen := map[string]int{}
	payload := 0
	for i := range t.cells.n() {
		name := strings.TrimSpace(string(t.cells.at(i)))
		fold := cases.Fold().String(name)
		if first, twin := seen[fold]; twin {
			return refused("", "columns %d and %d have the same name %q", first+1, i+1, name)
		}
		seen[fold] = i
		lower := strings.ToLower(name)
		isMember := false
		for _, m := range envelopeColumns {
			isMember = isMember || m == lower
		}
		switch {
		case isMember:
			t.member[lower] = i
			t.names = append(t.names, nil)
			continue
		case name == "":
			return refused("", "column %d has no name", i+1)
		case utf8.RuneCountInString(name) > 128 || strings.IndexFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }) >= 0:
			return refused("", "name of column %d is too long or has control characters", i+1)
		}
		payload++
		quoted, err := jsontext.AppendQuote(nil, name)
		if err != nil {
			return refused("", "name of column %d: %v", i+1, err)
		}
		t.names = append(t.names, quoted)
	}
	_, id := t.member["spot_id"]
	_, key := t.member["idempotency_key"]
	switch {
	case t.cells.n() == 1 && strings.Contains(string(t.cells.at(0)), ";"):
		return refused("save it with commas or tabs", "columns are separated by semicolons")
	case !id:
		return refused("the first line names the columns", "no column spot_id")
	case !key && !o.DeriveKeys:
		return refused("if the records have no keys, use --derive-keys", "no column idempotency_key")
	case payload == 0 || payload > 64:
		return refused("", "%d payload columns, 1 to 64 needed", payload)
	}
	t.derive = !key
	return nil
}

func (t *table) next() (Item, error) {
	for t.end == nil {
		ln, ok := t.l.next()
		if !ok {
			return Item{}, io.EOF
		}
		if !ln.ended {
			ln.text = bytes.TrimRight(ln.text, "\x1a")
		}
		if len(bytes.Trim(ln.text, " \r\x1a")) == 0 && ln.size <= int64(t.l.max) {
			continue
		}
		it, err := t.row(ln)
		return it, err
	}
	return Item{}, t.end
}

// row reads the row that begins with ln.
func (t *table) row(ln line) (Item, error) {
	if ln.size > int64(t.l.max) {
		return reject(ln, tooLong(ln.size, t.l.max), int64(t.l.max)), nil
	}
	size := int(ln.size)
	t.cells.reset()
	open, err := t.cells.feed(ln.text)
	last := ln
	var more []line
	if open {
		ln.text = bytes.Clone(ln.text) // the lines read now take its place
	}
	why := ""
	for open && err == nil {
		var ok bool
		if last, ok = t.l.next(); !ok {
			why = "quote is not closed before the end of the file"
			break
		}
		last.text = bytes.Clone(last.text)
		more = append(more, last)
		if size += int(min(last.size, int64(t.l.max))) + 1; size > t.l.max || len(more) >= maxRowLines {
			why = fmt.Sprintf("quote is not closed within %d lines and %d bytes", maxRowLines, t.l.max)
			break
		}
		open, err = t.cells.feed(last.text)
	}
	if err != nil {
		why = err.Error()
	}
	if why != "" {
		t.l.back = append(more, t.l.back...)
		it := reject(ln, why, int64(t.cells.fault))
		if !ln.ended && t.cells.open {
			t.cutOff(&it)
		}
		return it, nil
	}
	return t.judge(ln, last.ended), nil
}

func (t *table) cutOff(it *Item) {
	it.Reject.CutOff = true
	t.end = truncated("the last row is cut off")
}

// judge makes the record of the cells of a whole row.
func (t *table) judge(ln line, ended bool) Item {
	if n := t.cells.n(); n != len(t.names) {
		it := reject(ln, fmt.Sprintf("%d cells, the header has %d", n, len(t.names)), -1)
		if !ended && n < len(t.names) {
			t.cutOff(&it)
		}
		return it
	}
	for i := range t.cells.n() {
		c := t.cells.at(i)
		if bytes.IndexByte(c, 0) >= 0 {
			return reject(ln, fmt.Sprintf("NUL in column %d", i+1), int64(bytes.IndexByte(ln.text, 0)))
		}
		if !utf8.Valid(c) {
			at := invalidUTF8(ln.text)
			return reject(ln, fmt.Sprintf("not UTF-8 in column %d, at byte %d", i+1, at), at)
		}
	}
	if err := t.build(); err != nil {
		return reject(ln, err.Error(), -1)
	}
	return Item{Position: Position{Line: ln.no, Offset: ln.off}, Raw: t.out}
}

// invalidUTF8 is the offset of the first byte that is not UTF-8, -1 if all are.
func invalidUTF8(b []byte) int64 {
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			return int64(i)
		}
		i += n
	}
	return -1
}

// build writes the envelope: members in a fixed order, so that the same row
// gives the same bytes. An empty cell of an optional member leaves it out; an
// empty payload cell is an empty text.
func (t *table) build() error {
	var err error
	quote := func(dst, text []byte) []byte {
		dst, e := jsontext.AppendQuote(dst, text)
		err = errors.Join(err, e)
		return dst
	}
	t.body = append(t.body[:0], '{')
	for i, name := range t.names {
		if name == nil {
			continue
		}
		if len(t.body) > 1 {
			t.body = append(t.body, ',')
		}
		t.body = append(append(t.body, name...), ':')
		t.body = quote(t.body, t.cells.at(i))
	}
	t.body = append(t.body, '}')

	t.out = quote(append(t.out[:0], `{"spot_id":`...), t.cell("spot_id"))
	key := t.cell("idempotency_key")
	if t.derive {
		key = []byte(envelope.DeriveKey(string(t.cell("station")), string(t.cell("air_date")), string(t.cell("spot_id")), t.body))
	}
	t.out = quote(append(t.out, `,"idempotency_key":`...), key)
	t.out = append(append(t.out, `,"payload":`...), t.body...)
	for _, name := range envelopeColumns[2:] {
		if cell := t.cell(name); len(cell) > 0 {
			t.out = append(append(append(t.out, `,"`...), name...), `":`...)
			t.out = quote(t.out, cell)
		}
	}
	t.out = append(t.out, '}')
	if err == nil && len(t.out) > t.l.max {
		return errors.New(tooLong(int64(len(t.out)), t.l.max))
	}
	return err
}

func (t *table) cell(member string) []byte {
	if i, ok := t.member[member]; ok {
		return t.cells.at(i)
	}
	return nil
}

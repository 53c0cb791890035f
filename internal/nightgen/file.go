package nightgen

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
)

// file collects the lines of one market.
type file struct {
	market market
	lines  [][]byte
	counts Counts
}

func newFile(m market) *file { return &file{market: m, counts: Counts{Files: 1}} }

func (f *file) fits(forms []form) bool { return forms == nil || slices.Contains(forms, f.market.form) }

func (f *file) put(line []byte, bucket *int) {
	f.lines = append(f.lines, line)
	f.counts.Read++
	*bucket++
}

func (f *file) good(r record)      { f.put(f.encode(r), &f.counts.Valid) }
func (f *file) duplicate(r record) { f.put(f.encode(r), &f.counts.Duplicate) }
func (f *file) conflict(r record)  { f.put(f.encode(r), &f.counts.Conflict) }
func (f *file) bad(line []byte)    { f.put(line, &f.counts.Invalid) }

// encode writes one record in the form of the file, without a line end.
func (f *file) encode(r record) []byte {
	switch f.market.form {
	case csv:
		return row(r, ",", text)
	case tsv:
		return row(r, "\t", text)
	default:
		return r.json()
	}
}

func name(m member) string { return m.name }
func text(m member) string { return m.text }

// row writes one cell for each member of a record (RFC 4180), quoted only where they must be.
func row(r record, comma string, cell func(member) string) []byte {
	var b bytes.Buffer
	for i, m := range slices.Concat(r.head, r.payload) {
		if i > 0 {
			b.WriteString(comma)
		}
		c := cell(m)
		if strings.ContainsAny(c, comma+"\"\r\n") {
			c = `"` + strings.ReplaceAll(c, `"`, `""`) + `"`
		}
		b.WriteString(c)
	}
	return b.Bytes()
}

// finish joins the lines.
func (f *file) finish(base string) File {
	end := "\n"
	if f.market.crlf {
		end = "\r\n"
	}
	var b bytes.Buffer
	if f.market.bom {
		b.WriteString("\uFEFF")
	}
	switch f.market.form {
	case array:
		b.WriteString("[" + end)
		b.Write(bytes.Join(f.lines, []byte(","+end)))
		b.WriteString(end + "]" + end)
	default:
		if f.market.form == csv || f.market.form == tsv {
			b.Write(f.header())
			b.WriteString(end)
		}
		for _, l := range f.lines {
			b.Write(l)
			b.WriteString(end)
		}
	}
	return File{
		Name:    base + "." + string(f.market.form) + string(f.market.pack),
		Content: b.Bytes(), Pack: f.market.pack, Counts: f.counts,
	}
}

// header names the columns by the members they become.
func (f *file) header() []byte {
	comma := ","
	if f.market.form == tsv {
		comma = "\t"
	}
	some := newStationLog(rand.New(rand.NewPCG(0, 0)), f.market, f.market.stations[0], 1).next()
	return row(some, comma, name)
}

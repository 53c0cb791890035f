package nightgen

import (
	"bytes"
	"strings"
)

// fault is one thing that goes wrong. It writes the record r, which nothing
// else has written, in some broken way, and enters into f what a reader must
// make of it.
type fault struct {
	name  string
	forms []form // where it can happen; nil means everywhere
	write func(n *night, f *file, r record)
}

// invalid makes a fault of a change to the record.
func invalid(change func(record) record) func(*night, *file, record) {
	return func(_ *night, f *file, r record) {
		f.bad(f.encode(change(r.clone())))
	}
}

// broken makes a fault of a change to the written line.
func broken(change func(r record, line []byte) []byte) func(*night, *file, record) {
	return func(_ *night, f *file, r record) {
		f.bad(change(r, f.encode(r)))
	}
}

func set(name, text string) func(record) record {
	return func(r record) record {
		*r.field(name) = text
		return r
	}
}

var (
	jsonOnly = []form{ndjson, array}
	lines    = []form{ndjson}
	rows     = []form{csv, tsv}
)

// faults take turns, so that each kind occurs in a night of ordinary size.
var faults = []fault{
	{"exact duplicate", nil, func(_ *night, f *file, r record) {
		f.good(r)
		f.duplicate(r)
	}},
	{"cut line", lines, broken(func(_ record, line []byte) []byte { return line[:len(line)*2/3] })},
	{"same key, other content", nil, func(_ *night, f *file, r record) {
		f.good(r)
		later := r.clone()
		// The spot differs as well, or it would be the same spot sent again.
		*later.field("spot_id") += "-B"
		*later.field("title") += " (rev)"
		f.conflict(later)
	}},
	{"missing key", jsonOnly, invalid(func(r record) record {
		r.head = append(r.head[:1:1], r.head[2:]...)
		return r
	})},
	{"duplicate in another market's file", lines, func(n *night, f *file, r record) {
		if n.held == nil {
			c := r.clone()
			n.held = &c
			f.good(r)
			return
		}
		f.good(r)
		f.duplicate(*n.held)
		n.held = nil
	}},
	{"repeated member", lines, broken(func(r record, line []byte) []byte {
		return bytes.Replace(line, []byte(`"house_number":`), []byte(`"house_number":"50006","house_number":`), 1)
	})},
	{"lower-case station", nil, invalid(func(r record) record {
		return set("station", strings.ToLower(*r.field("station")))(r)
	})},
	{"same spot under two keys", nil, func(_ *night, f *file, r record) {
		f.good(r)
		later := r.clone()
		*later.field("idempotency_key") += "-2"
		f.conflict(later)
	}},
	{"bad UTF-8", []form{ndjson, csv, tsv}, broken(func(r record, line []byte) []byte {
		// A title in Windows-1252, as an old exporter writes it.
		title := []byte(*r.field("title"))
		quoted := title[:3]
		return bytes.Replace(line, quoted, append(bytes.Clone(quoted), 0xE9), 1)
	})},
	{"impossible date", nil, invalid(set("air_date", "2026-02-30"))},
	{"short key", nil, invalid(set("idempotency_key", "abc1234"))},
	{"number instead of text", jsonOnly, broken(func(r record, line []byte) []byte {
		n := *r.field("break_number")
		return bytes.Replace(line, []byte(`"break_number":"`+n+`"`), []byte(`"break_number":`+n), 1)
	})},
	{"call sign of two stations", nil, invalid(set("station", "KZAQ-AM/FM"))},
	{"minute 63", nil, invalid(set("air_time", "10:63:00"))},
	{"unknown member", jsonOnly, broken(func(_ record, line []byte) []byte {
		return append(line[:len(line)-1:len(line)-1], `,"rate":"35.00"}`...)
	})},
	{"missing column", rows, broken(func(_ record, line []byte) []byte {
		return line[:max(bytes.LastIndexByte(line, ','), bytes.LastIndexByte(line, '\t'))]
	})},
}

// breakOne writes r with the next fault that fits the file.
func (n *night) breakOne(f *file, r record) {
	for {
		ft := faults[n.fault%len(faults)]
		n.fault++
		if f.fits(ft.forms) {
			ft.write(n, f, r)
			return
		}
	}
}

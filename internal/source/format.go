package source

import (
	"bytes"
	"strings"
)

// newSplitter finds the format: as told, else by content. '[' begins a JSON
// array and '{' NDJSON; a first line with the columns of an envelope is a header.
// Anything else is NDJSON whose lines will be refused one by one, unless
// the name says that it is a table.
func newSplitter(name string, l *lines, o Options) (splitter, error) {
	head := l.skipBlank()
	if len(head) == 0 {
		if l.err != nil {
			return nil, l.err
		}
		return nil, &FileError{Reason: "empty: no records", Err: ErrEmpty}
	}
	first := bytes.TrimLeft(head, " \t")[:1][0]
	format := o.Format
	if format == "" || format == "auto" {
		format = guess(name, first, l)
	}
	switch format {
	case "ndjson":
		if first == '[' && o.Format == "ndjson" {
			return nil, refused("use --format json", "is a JSON array, not NDJSON")
		}
		return &ndjson{l: l}, nil
	case "json":
		if first != '[' {
			return nil, refused("use --format auto", "is no JSON array")
		}
		return &array{l: l}, nil
	case "csv":
		return newTable(l, ',', o)
	case "tsv":
		return newTable(l, '\t', o)
	}
	return nil, refused("formats: auto, ndjson, json, csv, tsv", "unknown format %q", o.Format)
}

func guess(name string, first byte, l *lines) string {
	switch first {
	case '[':
		return "json"
	case '{':
		return "ndjson"
	}
	row := l.peekLine()
	for _, f := range []struct{ name, delim string }{{"csv", ","}, {"tsv", "\t"}, {"csv", ";"}} {
		for _, cell := range strings.Split(string(row), f.delim) {
			switch strings.ToLower(strings.Trim(cell, " \t\r\"")) {
			case "spot_id", "idempotency_key":
				return f.name
			}
		}
	}
	switch nameFormat(name) {
	case ".csv":
		return "csv"
	case ".tsv":
		return "tsv"
	}
	return "ndjson"
}

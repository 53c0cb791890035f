package ical

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// line is a property.
type line struct {
	number int // of the file's lines, the first that it takes
	name   string
	params map[string]string
	value  string
}

func (l line) fault(format string, a ...any) error {
	return fmt.Errorf("line %d: %s: %w", l.number, l.name, fmt.Errorf(format, a...))
}

// lines reads the properties of a file, each as one though it is folded.
func lines(data []byte) (all []line, err error) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	var text []byte
	first := 0
	end := func() error {
		if len(text) == 0 {
			return nil
		}
		l, err := parseLine(string(text))
		if err != nil {
			return fmt.Errorf("line %d: %w", first, err)
		}
		l.number = first
		all, text = append(all, l), nil
		return nil
	}
	number := 0
	for raw := range bytes.Lines(data) {
		number++
		raw = bytes.TrimRight(raw, "\r\n")
		if len(raw) > 0 && (raw[0] == ' ' || raw[0] == '\t') {
			text = append(text, raw[1:]...)
			continue
		}
		if err := end(); err != nil {
			return nil, err
		}
		text, first = append(text, raw...), number
	}
	return all, end()
}

var errLine = errors.New("want NAME:value or NAME;PARAMETER=value:value")

func parseLine(text string) (l line, err error) {
	i := strings.IndexAny(text, ";:")
	if i <= 0 {
		return l, errLine
	}
	l.name, l.params, text = strings.ToUpper(text[:i]), map[string]string{}, text[i:]
	for text[0] == ';' {
		name, rest, ok := strings.Cut(text[1:], "=")
		if !ok {
			return l, errLine
		}
		i := endOfParam(rest)
		if i < 0 {
			return l, errLine
		}
		l.params[strings.ToUpper(name)] = strings.Trim(rest[:i], `"`)
		text = rest[i:]
	}
	l.value = text[1:]
	return l, nil
}

// endOfParam is where the value of a parameter ends, -1: nowhere.
func endOfParam(text string) int {
	quoted := false
	for i, r := range text {
		switch {
		case r == '"':
			quoted = !quoted
		case !quoted && (r == ';' || r == ':'):
			return i
		}
	}
	return -1
}

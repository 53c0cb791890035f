package config

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// kindOf names what stands where something else is wanted.
func kindOf(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.SequenceNode:
		return "list"
	case n.Kind == yaml.MappingNode:
		return "section"
	case n.Tag == "!!null":
		return "key without a value"
	}
	return "single value"
}

func wanted(t reflect.Type) string { return "write a single value, such as " + exampleOf(t) }

// exampleOf is a value of type t, as it is written.
func exampleOf(t reflect.Type) string {
	switch {
	case t == durationType:
		return "20s"
	case t == clockType:
		return `"02:00"`
	case t == reflect.TypeFor[Share]():
		return "0.1%"
	case t == reflect.TypeFor[Quota](), t == reflect.TypeFor[Size]():
		return "50MB"
	case t.Kind() == reflect.Bool:
		return "true"
	case t.Kind() == reflect.Int:
		return "8"
	case t.Kind() == reflect.Float64:
		return "0.5"
	case t.Kind() == reflect.Slice:
		return "[" + exampleOf(t.Elem()) + "]"
	case t.Kind() == reflect.Map:
		return "{NAME: " + exampleOf(t.Elem()) + "}"
	case isSection(t):
		f := t.Field(0)
		if e := f.Tag.Get("example"); e != "" {
			return "{" + f.Tag.Get("key") + ": " + e + "}"
		}
		return "{" + f.Tag.Get("key") + ": " + exampleOf(f.Type) + "}"
	}
	return "TEXT"
}

// shown quotes a value for a message: on one line, not too long, and without
// the login of a URL.
func shown(text string) string {
	if strings.Contains(text, "@") || strings.Contains(text, "://") {
		text = Shown(text)
	}
	const most = 60
	if len(text) > most {
		cut := most
		for !utf8.RuneStart(text[cut]) {
			cut--
		}
		text = text[:cut] + "…"
	}
	return strconv.Quote(text)
}

// keyShown is a key as far as it looks like one: what comes behind may be a value,
// and a secret, before which a blank was forgotten.
func keyShown(key string) string {
	end := strings.IndexFunc(key, func(r rune) bool {
		return !(r == '.' || r == '_' || r == '-' || r == '[' || r == ']' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z')
	})
	switch {
	case end < 0 && len(key) <= 80:
		return key
	case end < 0:
		end = 80
	}
	return key[:end] + "…"
}

// suggestion says what an unknown key of a section was meant to be.
func suggestion(section, key string, known []string) string {
	if name, _, ok := strings.Cut(key, ":"); ok && slices.Contains(known, name) {
		return "; a blank is missing after the colon"
	}
	if n := Nearest(key, known); n != "" {
		return "; did you mean " + join(section, n) + "?"
	}
	if o, ok := Lookup(key); ok {
		parts := strings.Split(o.Key, ".")
		return "; write " + strings.Join(parts[:len(parts)-1], ": {") + ": {" + parts[len(parts)-1] + ": " + exampleOf(o.Type) + strings.Repeat("}", len(parts)-1)
	}
	for _, o := range Options() {
		if o.Key == key || strings.HasSuffix(o.Key, "."+key) || strings.ReplaceAll(key, "-", "_") == strings.ReplaceAll(o.Flag, "-", "_") && key != "" {
			return "; did you mean " + o.Key + "?"
		}
	}
	if section == "" {
		return "; known are " + strings.Join(known, ", ")
	}
	return "; " + section + " has " + strings.Join(known, ", ")
}

// distance is how many letters have to be changed, put in, left out or swapped
// with the next to make b of a (optimal string alignment).
func distance(a, b string) int {
	before, prev, cur := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			change := prev[j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			cur[j] = slices.Min([]int{prev[j] + 1, cur[j-1] + 1, change})
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], before[j-2]+1)
			}
		}
		before, prev, cur = prev, cur, before
	}
	return prev[len(b)]
}

package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"trafficup/internal/secret"
)

// Line is one value in force.
type Line struct {
	Key    string
	Value  string // as YAML; *** for secrets
	Origin Origin
}

// Lines are all values, in the order of the tree; maps and lists of sections
// have one line for each of their values that is set.
func (l *Loaded) Lines() []Line {
	var all []Line
	for _, o := range Options() {
		l.lines(o.in(&l.Config), o.Key, &all)
	}
	return all
}

func (l *Loaded) lines(v reflect.Value, key string, all *[]Line) {
	switch {
	case isSection(v.Type()):
		for n := range v.NumField() {
			if field := v.Field(n); !field.IsZero() {
				l.lines(field, join(key, v.Type().Field(n).Tag.Get("key")), all)
			}
		}
		return
	case v.Kind() == reflect.Map && v.Len() > 0:
		for _, k := range slices.SortedFunc(slices.Values(v.MapKeys()), func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) }) {
			l.lines(v.MapIndex(k), join(key, k.String()), all)
		}
		return
	case v.Kind() == reflect.Slice && v.Len() > 0 && isSection(v.Type().Elem()):
		for n := range v.Len() {
			l.lines(v.Index(n), fmt.Sprintf("%s[%d]", key, n), all)
		}
		return
	}
	*all = append(*all, Line{key, render(v), l.Origin(key)})
}

// render writes a value as YAML on one line, without what must not be seen.
func render(v reflect.Value) string {
	switch {
	case v.Type() == secretType:
		if v.IsZero() {
			return ""
		}
		return v.Interface().(secret.Secret).String()
	case v.Type() == clockType:
		return strconv.Quote(v.String()) // as the reader of files wants it
	case isScalar(v.Type()):
		return word(formatScalar(v))
	case v.Kind() == reflect.Slice:
		parts := make([]string, v.Len())
		for n := range parts {
			parts[n] = render(v.Index(n))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case v.Kind() == reflect.Map:
		m := map[string]string{}
		for _, k := range v.MapKeys() {
			m[word(k.String())] = render(v.MapIndex(k))
		}
		var parts []string
		for _, k := range slices.Sorted(maps.Keys(m)) {
			parts = append(parts, k+": "+m[k])
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	var parts []string
	for n := range v.NumField() {
		if f := v.Field(n); !f.IsZero() {
			parts = append(parts, v.Type().Field(n).Tag.Get("key")+": "+render(f))
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// word writes s so that YAML reads it as it is, also within a list.
func word(s string) string {
	if strings.Contains(s, "://") {
		s = Shown(s)
	}
	if s == "" || strings.ContainsAny(s, "{}[],#&*!|>'\"%@`\n") || strings.Contains(s, ": ") || strings.HasSuffix(s, ":") || s != strings.TrimSpace(s) {
		return fmt.Sprintf("%q", s)
	}
	var n yaml.Node
	if err := yaml.Unmarshal([]byte(s), &n); err != nil || len(n.Content) != 1 || n.Content[0].Kind != yaml.ScalarNode {
		return fmt.Sprintf("%q", s)
	}
	return s
}

// Shown is a URL without what may be a secret: its login and its query.
func Shown(raw string) string {
	raw = secret.RedactURL(raw)
	if before, _, found := strings.Cut(raw, "?"); found {
		return before + "?***"
	}
	return raw
}

package config

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"io"
	"reflect"
	"strconv"
	"strings"
)

// WriteSchema writes a JSON Schema (draft 2020-12) of the file, for editors. It
// is a little more lenient than Load: what takes more than one key to see is not
// in it.
func WriteSchema(w io.Writer) error {
	s := schemaOf(reflect.TypeFor[Config](), reflect.ValueOf(Default()), "")
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = "trafficup.yaml"
	return json.MarshalWrite(w, s, jsontext.WithIndent("  "), json.Deterministic(true))
}

// schemaOf describes values of type t under the rule in validator's words. def
// holds the defaults; it is not valid where there are none.
func schemaOf(t reflect.Type, def reflect.Value, rule string) map[string]any {
	own, elements, _ := strings.Cut(rule, "dive")
	switch {
	case isSection(t):
		return sectionSchema(t, def)
	case t.Kind() == reflect.Map:
		if _, after, ok := strings.Cut(elements, "endkeys"); ok {
			elements = after
		}
		return map[string]any{"type": []string{"object", "null"}, "additionalProperties": schemaOf(t.Elem(), reflect.Value{}, elements)}
	case t.Kind() == reflect.Slice:
		list := map[string]any{"type": "array", "items": schemaOf(t.Elem(), reflect.Value{}, elements)}
		if isScalar(t.Elem()) {
			return map[string]any{"anyOf": []any{list, map[string]any{"type": []string{"string", "number"}, "description": "values with commas between them"}}}
		}
		list["type"] = []string{"array", "null"}
		return list
	}
	s := map[string]any{}
	switch {
	case t == durationType:
		s["type"], s["pattern"] = []string{"string", "integer"}, `^\s*([-+]?([0-9.]+(ns|us|µs|μs|ms|s|m|h))+|[-+]?[0-9.]+d|[-+]?0)\s*$`
		s["maximum"] = 0 // of numbers; all but 0 need a unit
	case t == clockType:
		s["type"], s["pattern"] = "string", `^\s*(([01][0-9]|2[0-3]):[0-5][0-9]( .*)?|24:00)?\s*$`
	case t == reflect.TypeFor[Size]():
		s["type"], s["pattern"] = "string", `^\s*[0-9.]+\s*(B|[kKMGT]B|[KMGT]iB)\s*$`
	case t == reflect.TypeFor[Share](), t == reflect.TypeFor[Quota]():
		s["type"], s["pattern"] = "string", `^\s*((100|[0-9]{1,2})(\.[0-9]+)?\s*%)?\s*$`
		if t == reflect.TypeFor[Quota]() {
			s["pattern"] = `^\s*([0-9.]+\s*(%|B|[kKMGT]B|[KMGT]iB))?\s*$`
		}
	case t.Kind() == reflect.Bool:
		s["enum"] = []any{true, false, "true", "false"}
	case t == reflect.TypeFor[Concurrency]():
		s["anyOf"] = []any{map[string]any{"const": "auto"}, map[string]any{"type": "integer", "minimum": 1, "maximum": 1024}, map[string]any{"type": "string", "pattern": "^[0-9]+$"}}
	case t.Kind() == reflect.Int, t.Kind() == reflect.Float64:
		s["type"], s["pattern"] = []string{"integer", "string"}, `^\s*[-+]?[0-9]+\s*$`
		if t.Kind() == reflect.Float64 {
			s["type"], s["pattern"] = []string{"number", "string"}, `^\s*[-+]?[0-9.]+([eE][-+]?[0-9]+)?\s*$`
		}
		bounds(s, own)
	default:
		s["type"] = []string{"string", "number", "boolean"}
		for r := range strings.SplitSeq(own, ",") {
			if words, ok := strings.CutPrefix(r, "oneof="); ok {
				s = map[string]any{"enum": strings.Fields(words)}
			}
		}
	}
	return s
}

func sectionSchema(t reflect.Type, def reflect.Value) map[string]any {
	properties, required := map[string]any{}, []string(nil)
	for n := range t.NumField() {
		f := t.Field(n)
		var d reflect.Value
		if def.IsValid() {
			d = def.Field(n)
		}
		p := schemaOf(f.Type, d, f.Tag.Get("validate"))
		p["description"] = f.Tag.Get("help")
		if d.IsValid() && !isSection(f.Type) && !d.IsZero() && isScalar(f.Type) {
			p["default"] = formatScalar(d)
		}
		properties[f.Tag.Get("key")] = p
		if f.Tag.Get("validate") == "required" {
			required = append(required, f.Tag.Get("key"))
		}
	}
	s := map[string]any{"type": []string{"object", "null"}, "additionalProperties": false, "properties": properties}
	if len(required) > 0 {
		s["type"], s["required"] = "object", required
	}
	return s
}

// bounds takes min, max and oneof of numbers over.
func bounds(s map[string]any, rule string) {
	for r := range strings.SplitSeq(rule, ",") {
		name, bound, _ := strings.Cut(r, "=")
		n, err := strconv.ParseFloat(bound, 64)
		switch {
		case name == "min" && err == nil:
			s["minimum"] = n
		case name == "max" && err == nil:
			s["maximum"] = n
		}
	}
}

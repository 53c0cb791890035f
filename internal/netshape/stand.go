package netshape

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"trafficup/internal/tc"
)

// stand is what stands at an interface's root or ingress: a shaper of ours, or
// someone else's, or, being the zero value, what the kernel puts there itself.
type stand struct {
	Shaper  tc.Shaper `json:"shaper,omitzero"`
	Foreign foreign   `json:"foreign,omitzero"`
}

// foreign is enough of a root to put it back, if it has no classes.
type foreign struct {
	Kind    tc.Kind `json:"kind"`
	Handle  uint32  `json:"handle"`
	Raw     []byte  `json:"raw"`
	Classes bool    `json:"classes,omitempty"` // it has some, or filters: raw is not all of it
}

// qdisc is what is put back.
func (f foreign) qdisc() tc.Qdisc {
	return tc.Qdisc{Kind: f.Kind, Handle: f.Handle, Parent: tc.Root, Raw: f.Raw}
}

func (s stand) ours() bool    { return s.Shaper.Kind != "" }
func (s stand) foreign() bool { return s.Foreign.Kind != "" }

// whole reports that all is known that it takes to put s back. Of an ifb with the
// kernel's default, to which others' filters lead, there is nothing to be known.
func (s stand) whole() bool { return !s.Foreign.Classes || s.Foreign.Kind == kindIFB }

// damaged reports that s is ours by its handle or name and not as we made it.
// Nothing tells what it is, so that it cannot be put back.
func (s stand) damaged() bool { return s.ours() && s.Shaper == (tc.Shaper{Kind: s.Shaper.Kind}) }

func (s stand) equal(o stand) bool {
	return s.Shaper == o.Shaper && s.Foreign.Kind == o.Foreign.Kind && s.Foreign.Handle == o.Foreign.Handle && bytes.Equal(s.Foreign.Raw, o.Foreign.Raw)
}

// String is for people.
func (s stand) String() string {
	switch {
	case s.ours():
		return describe(s.Shaper)
	case s.Foreign.Kind == kindIFB:
		return "an ifb with the kernel's default"
	case s.foreign():
		return s.Foreign.String()
	}
	return "the kernel's default"
}

// rootOf tells what a listing of an interface's qdiscs has at the root.
func rootOf(list []tc.Qdisc) (stand, tc.Qdisc) {
	i := slices.IndexFunc(list, func(q tc.Qdisc) bool { return q.Parent == tc.Root })
	if i < 0 {
		return stand{}, tc.Qdisc{}
	}
	q := list[i]
	switch {
	case q.Default:
		return stand{}, q
	case q.Kind == tc.KindCake && q.Handle == tc.CakeHandle, q.Kind == tc.KindHTB && q.Handle == tc.HTBHandle:
		s := q.Shaper
		s.Kind = q.Kind // also when its insides are not as we made them
		return stand{Shaper: s}, q
	}
	classes := slices.ContainsFunc(list, func(c tc.Qdisc) bool { return c.Parent != tc.Root && c.Parent>>16 == q.Handle>>16 }) || !classless[q.Kind]
	return stand{Foreign: foreign{q.Kind, q.Handle, q.Raw, classes}}, q
}

// classless are the kinds whose options are all there is to them, and are taken by the
// kernel as it tells them. It does not tell all that a red, choke or gred needs.
var classless = map[tc.Kind]bool{
	"cake": true, "codel": true, "fq": true, "fq_codel": true, "fq_pie": true, "netem": true, "noqueue": true, "pfifo": true,
	"pfifo_fast": true, "bfifo": true, "pie": true, "sfb": true, "sfq": true, "tbf": true,
}

// differences names the options of want that have differs in, with both values.
// Shapers of two kinds differ in that alone.
func differences(want, have tc.Shaper) []string {
	if have.Kind == kindIFB {
		return []string{"nothing is led to its ifb, or that has no queue"}
	}
	if want.Kind != have.Kind {
		return []string{fmt.Sprintf("kind %s, want %s", orNone(string(have.Kind)), orNone(string(want.Kind)))}
	}
	if have == (tc.Shaper{Kind: have.Kind}) && want != have {
		return []string{"options, classes or filters that are not ours"}
	}
	return fieldsDiffer("", reflect.ValueOf(want), reflect.ValueOf(have))
}

func fieldsDiffer(name string, want, have reflect.Value) (list []string) {
	switch want.Kind() {
	case reflect.Struct:
		for i := range want.NumField() {
			list = append(list, fieldsDiffer(optionName(want.Type().Field(i).Name), want.Field(i), have.Field(i))...)
		}
	default:
		if want.Interface() != have.Interface() {
			list = append(list, fmt.Sprintf("%s %s, want %s", name, value(name, have.Interface()), value(name, want.Interface())))
		}
	}
	return list
}

func value(name string, v any) string {
	if rate, ok := v.(uint64); ok && name == "rate" {
		return FormatRate(rate)
	}
	return fmt.Sprint(v)
}

// optionName is tc's word for a field.
func optionName(field string) string {
	switch field {
	case "AckFilter":
		return "ack-filter"
	case "SplitGSO":
		return "split-gso"
	case "HasOverhead":
		return "overhead given"
	}
	return strings.ToLower(field)
}

func orNone(s string) string {
	if s == "" {
		return None
	}
	return s
}

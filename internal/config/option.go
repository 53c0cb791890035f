package config

import (
	"encoding"
	"reflect"
	"strings"
	"sync"
	"time"

	"trafficup/internal/secret"
)

// Option is one setting, in all its layers.
type Option struct {
	Key     string // in files, with a dot for each section: retry.max_attempts
	Flag    string // without the dashes; "": --set KEY=VALUE
	Help    string
	Example string // a value, as YAML; "": its default is one
	Rule    string // the bounds, in the words of validator
	Type    reflect.Type
	index   []int
}

// Env is the variable of the option: TRAFFICUP_RETRY_MAX_ATTEMPTS.
func (o Option) Env() string { return envPrefix + strings.ToUpper(strings.ReplaceAll(o.Key, ".", "_")) }

// Secret tells that the value must not be shown, nor stand on a command line.
func (o Option) Secret() bool {
	t := o.Type
	if t.Kind() == reflect.Map {
		t = t.Elem()
	}
	return t == secretType
}

// FileOnly tells that the option has no other layer than files.
func (o Option) FileOnly() bool { return o.Key == "include" }

// Default is the option's value for who sets nothing, as it is written.
func (o Option) Default() string {
	c := Default()
	return render(o.in(&c))
}

func (o Option) in(c *Config) reflect.Value { return reflect.ValueOf(c).Elem().FieldByIndex(o.index) }

const envPrefix = "TRAFFICUP_"

// Options are all settings, in the order of the tree.
var Options = sync.OnceValue(func() []Option {
	var all []Option
	collect(reflect.TypeFor[Config](), "", nil, &all)
	return all
})

func collect(t reflect.Type, prefix string, index []int, all *[]Option) {
	for n := range t.NumField() {
		f := t.Field(n)
		at := append(index[:len(index):len(index)], n)
		key := join(prefix, f.Tag.Get("key"))
		if isSection(f.Type) {
			collect(f.Type, key, at, all)
			continue
		}
		*all = append(*all, Option{
			Key: key, Flag: f.Tag.Get("flag"), Help: f.Tag.Get("help"), Example: f.Tag.Get("example"),
			Rule: f.Tag.Get("validate"), Type: f.Type, index: at,
		})
	}
}

// Lookup finds an option by its key.
func Lookup(key string) (Option, bool) {
	for _, o := range Options() {
		if o.Key == key {
			return o, true
		}
	}
	return Option{}, false
}

var (
	secretType  = reflect.TypeFor[secret.Secret]()
	unmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// isSection tells a struct of further keys from one that is a value.
func isSection(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && t != secretType && t != reflect.TypeFor[time.Time]() && !reflect.PointerTo(t).Implements(unmarshaler)
}

// isScalar tells that a value of type t is written as one word.
func isScalar(t reflect.Type) bool {
	return !isSection(t) && t.Kind() != reflect.Map && t.Kind() != reflect.Slice
}

// fields are the keys of a section, each with the field's number.
func fields(t reflect.Type) map[string]int {
	m := make(map[string]int, t.NumField())
	for n := range t.NumField() {
		m[t.Field(n).Tag.Get("key")] = n
	}
	return m
}

func join(prefix, key string) string {
	if prefix == "" {
		return key
	}
	return prefix + "." + key
}

// Kind is the type of the option's value, in a word; that of lists ends in s.
func (o Option) Kind() string {
	switch t := o.Type; {
	case t == durationType:
		return "duration"
	case t.Kind() == reflect.Bool:
		return "bool"
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Int:
		return "numbers"
	case t.Kind() == reflect.Slice:
		return "words"
	case t.Kind() == reflect.Map:
		return "pairs"
	case t.Kind() == reflect.Int, t.Kind() == reflect.Float64:
		return "number"
	case t == clockType:
		return "time"
	}
	return "text"
}

// SectionHelp says what the options of a section at the top of the tree are for.
func SectionHelp(section string) string {
	t := reflect.TypeFor[Config]()
	if n, ok := fields(t)[section]; ok {
		return t.Field(n).Tag.Get("help")
	}
	return ""
}

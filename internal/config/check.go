package config

import (
	"fmt"
	"net/url"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/go-playground/validator/v10"
	"golang.org/x/net/http/httpguts"
)

// rules is the validator with our words for keys and our own rules.
var rules = sync.OnceValue(func() *validator.Validate {
	v := validator.New(validator.WithRequiredStructEnabled())
	v.RegisterTagNameFunc(func(f reflect.StructField) string { return f.Tag.Get("key") })
	for name, ok := range map[string]func(string) bool{
		"endpoint":    func(s string) bool { return endpointProblem(s) == "" },
		"header_name": httpguts.ValidHeaderFieldName,
	} {
		err := v.RegisterValidation(name, func(f validator.FieldLevel) bool { return ok(f.Field().String()) })
		if err != nil {
			panic(err) // a rule without a name
		}
	}
	return v
})

// validate holds the values against the rules in the tree's tags.
func (l *Loaded) validate() {
	err := rules().Struct(l.Config)
	faults, ok := err.(validator.ValidationErrors) //nolint:errorlint // documented as such
	if err != nil && !ok {
		panic(err) // no struct
	}
	for _, f := range faults {
		key := l.keyOf(f.Namespace())
		if other := sibling(key, f.Param()); f.Tag() == "gtefield" && l.Origin(key).Layer == "default" {
			l.Fault(other, "%s: not above %s, which is %s", shown(l.Value(other)), key, l.Value(key))
			continue // nobody wrote the other one
		}
		if other := sibling(key, f.Param()); f.Tag() == "required_with" {
			l.faults = append(l.faults, Fault{l.Origin(other), key, l.broken(f, key)})
			continue
		}
		l.Fault(key, "%s", l.broken(f, key))
	}
	l.oneSource()
}

// oneSource refuses two sources of the token: nobody could tell which one is used.
func (l *Loaded) oneSource() {
	a := l.API.Auth
	var given []string
	for _, s := range []struct {
		key string
		set bool
	}{
		{"api.auth.token", !a.Token.IsZero()}, {"api.auth.token_file", a.TokenFile != ""},
		{"api.auth.token_command", len(a.TokenCommand) > 0}, {"api.auth.oauth.token_url", a.OAuth.TokenURL != ""},
	} {
		if s.set {
			given = append(given, s.key)
		}
	}
	if len(given) > 1 {
		first, last := given[0], given[len(given)-1]
		l.Fault(last, "the token comes from %s (%s) already; leave one of them out", first, l.Origin(first))
	}
}

var index = regexp.MustCompile(`\[([^]]*)\]`)

// keyOf turns the validator's Config.paths[leo].http into paths.leo.http.
func (l *Loaded) keyOf(namespace string) string {
	_, key, _ := strings.Cut(namespace, ".")
	return index.ReplaceAllStringFunc(key, func(m string) string {
		if _, err := strconv.Atoi(m[1 : len(m)-1]); err == nil {
			return m
		}
		return "." + m[1:len(m)-1]
	})
}

// broken says which rule a value breaks.
func (l *Loaded) broken(f validator.FieldError, key string) string {
	value, bound := shown(formatAny(f.Value())), f.Param()
	switch f.Tag() {
	case "endpoint":
		return value + ": " + endpointProblem(fmt.Sprint(f.Value()))
	case "header_name":
		return "no header has such a name"
	case "min":
		return value + ": at least " + bound
	case "max":
		if f.Kind() == reflect.String {
			return value + ": at most " + bound + " letters"
		}
		return value + ": at most " + bound
	case "oneof":
		words := strings.Fields(bound)
		hint := ""
		if n := Nearest(fmt.Sprint(f.Value()), words); n != "" {
			hint = "; did you mean " + n + "?"
		}
		return value + ": one of " + strings.Join(words, ", ") + hint
	case "gtefield":
		other := sibling(key, bound)
		return value + ": not below " + other + ", which is " + l.Value(other)
	case "required_with":
		return "is missing: " + sibling(key, bound) + " is of no use alone"
	case "required":
		return "is missing"
	case "ip":
		return value + ": write an IP address"
	}
	return value + ": breaks the rule " + f.Tag() + " " + bound
}

var hump = regexp.MustCompile(`([a-z])([A-Z])`)

// sibling is the key of another field, named as in Go, of key's section.
func sibling(key, field string) string {
	return join(key[:max(0, strings.LastIndexByte(key, '.'))], strings.ToLower(hump.ReplaceAllString(field, "${1}_$2")))
}

func formatAny(v any) string {
	r := reflect.ValueOf(v)
	if isScalar(r.Type()) {
		return formatScalar(r)
	}
	return fmt.Sprint(v)
}

// Same tells that an option has the same value in both, secrets included.
func (l *Loaded) Same(m *Loaded, o Option) bool {
	return reflect.DeepEqual(o.in(&l.Config).Interface(), o.in(&m.Config).Interface())
}

// Value is the value of the option key, as it is written; *** for secrets.
func (l *Loaded) Value(key string) string {
	o, ok := Lookup(key)
	if !ok {
		return ""
	}
	return render(o.in(&l.Config))
}

// endpointProblem says what keeps raw from being the URL of an endpoint: http or
// https, a host, and nothing that a request would not carry. "" if nothing does.
func endpointProblem(raw string) string {
	u, err := url.Parse(raw)
	switch {
	case strings.ContainsAny(raw, " \t\r\n"):
		return "a URL has no blanks"
	case err != nil && strings.Contains(err.Error(), "port"):
		return "that is no port"
	case err != nil:
		return "that is no URL"
	case u.Scheme != "http" && u.Scheme != "https":
		return "write it with its scheme, such as https://api.example/v1/logs"
	case u.Hostname() == "":
		return "the host is missing"
	case u.User != nil:
		return "user names and passwords do not belong into a URL; put the token into api.auth.token_file"
	case u.Fragment != "":
		return "leave out what follows #: it is never sent"
	}
	if n, err := strconv.ParseUint(u.Port(), 10, 16); u.Port() != "" && (err != nil || n == 0) {
		return u.Port() + " is no port"
	}
	return ""
}

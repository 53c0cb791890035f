package secret

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	jsonv2 "encoding/json/v2"
	"encoding/xml"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"text/template"
)

// canary begins every value looked for: no address in memory looks like it.
const canary = "canary-"

type open struct {
	S Secret
	P *Secret
	M map[string]Secret
	L []Secret
	A any
}

// closed hides its secrets from fmt's look for methods.
type closed struct {
	s Secret
	p *Secret
	m map[string]Secret
	l []Secret
	a any
}

// texts returns s in every shape, printed in every way.
func texts(s Secret) []string {
	m, l := map[string]Secret{"k": s}, []Secret{s}
	o := open{s, &s, m, l, s}
	c := closed{s, &s, m, l, s}
	values := []any{s, &s, m, l, o, &o, c, &c, [1]Secret{s}, struct{ closed }{c}, errors.Join(fmt.Errorf("e %v", s))}
	var out []string
	for _, v := range values {
		for verb := rune('!'); verb <= 'z'; verb++ {
			if verb == '*' || verb == '[' || verb >= '0' && verb <= '9' {
				continue
			}
			for _, flags := range []string{"", "+", "#", "-040.3"} {
				out = append(out, fmt.Sprintf("%"+flags+string(verb), v))
			}
		}
		out = append(out, fmt.Sprint(v), fmt.Sprintln(v))
		for _, h := range []func(*bytes.Buffer) slog.Handler{
			func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) },
			func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) },
		} {
			var b bytes.Buffer
			slog.New(h(&b)).Info("m", "v", v, "s", s)
			out = append(out, b.String())
		}
		one, _ := json.Marshal(v)
		two, _ := jsonv2.Marshal(v)
		three, _ := xml.Marshal(v)
		out = append(out, string(one), string(two), string(three))
	}
	var b bytes.Buffer
	_ = template.Must(template.New("").Parse("{{.}} {{.S}} {{printf \"%q\" .P}}")).Execute(&b, o)
	return append(out, b.String())
}

// traces are the forms in which a value could be in a text.
func traces(v string) []string {
	q := fmt.Sprintf("%q", v)
	return []string{
		v, q[1 : len(q)-1], hex.EncodeToString([]byte(v)), strings.ToUpper(hex.EncodeToString([]byte(v))),
		base64.StdEncoding.EncodeToString([]byte(canary))[:8], fmt.Sprint([]byte(v)),
	}
}

func hidden(t *testing.T, v string) {
	t.Helper()
	marks := traces(v)
	for _, text := range texts(New(v)) {
		for _, trace := range marks {
			if strings.Contains(text, trace) {
				t.Fatalf("%q is seen in %q", trace, text)
			}
		}
	}
}

func TestNothingPrintsTheValue(t *testing.T) {
	for _, v := range []string{"", "x\x00\xff", "%s%v\"<b>", strings.Repeat("long", 300)} {
		hidden(t, canary+v)
	}
}

func FuzzNothingPrintsTheValue(f *testing.F) {
	for _, v := range []string{"", "x", "\x00", "%s%v", "\"", "<b>", "***"} {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, v string) { hidden(t, canary+v) })
}

func TestMasks(t *testing.T) {
	s := New("hunter2hunter2")
	for format, want := range map[string]string{"%v": "***", "%+v": "***", "%#v": "***", "%s": "***", "%q": "***", "%x": "***", "%d": "***"} {
		if got := fmt.Sprintf(format, s); got != want {
			t.Errorf("%s: %s", format, got)
		}
	}
	for name, marshal := range map[string]func(any) ([]byte, error){"v1": json.Marshal, "v2": func(v any) ([]byte, error) { return jsonv2.Marshal(v) }} {
		got, err := marshal(struct{ S Secret }{s})
		if err != nil || string(got) != `{"S":"***"}` {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
	func() {
		defer func() {
			if got := fmt.Sprint(recover()); got != "***" {
				t.Errorf("panic: %s", got)
			}
		}()
		panic(s)
	}()
}

func TestEqual(t *testing.T) {
	a, b, none := New("one"), New("two"), New("")
	if !a.Equal(New("one")) || a.Equal(b) || a.Equal(none) || !none.Equal(Secret{}) {
		t.Error("equality is wrong")
	}
	if a.IsZero() || !none.IsZero() || none.Reveal() != "" || a.Reveal() != "one" {
		t.Error("the zero Secret is wrong")
	}
}

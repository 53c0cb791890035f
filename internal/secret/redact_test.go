package secret

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

func TestRedactURL(t *testing.T) {
	for in, want := range map[string]string{
		"":                                 "",
		"https://host/path":                "https://host/path",
		"https://user:pass@host/path?q=1":  "https://***@host/path?q=1",
		"https://user@host":                "https://***@host",
		"redis://:pass@host:6379/0":        "redis://***@host:6379/0",
		"https://host/a@b":                 "https://host/a@b",
		"https://host?mail=a@b":            "https://host?mail=a@b",
		"https://u:p@ss@host":              "https://***@host",
		"redis://user:pa/ss@host":          "redis://***@host",
		"redis://user:pa#ss@host:6379":     "redis://***@host:6379",
		"//user:pass@host/x":               "//***@host/x",
		"user:pass@host:8080":              "***@host:8080",
		"http://user:%zz@host/":            "http://***@host/",
		"http://user:pass\x7f@host/secret": "http://***@host/secret",
	} {
		if got := RedactURL(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestRedactURLOfAnyPassword(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pass := canary + rapid.String().Draw(t, "password")
		u := url.URL{Scheme: "https", Host: "host", Path: "/p", User: url.UserPassword("u", pass)}
		if got := RedactURL(u.String()); got != "https://***@host/p" {
			t.Fatalf("%q", got)
		}
	})
}

func TestRedactor(t *testing.T) {
	var r Redactor
	if got := r.Redact("as it is"); got != "as it is" {
		t.Error(got)
	}
	for _, v := range []string{"pass word/1", "pass", "password", "abc", ""} {
		r.Add(New(v))
	}
	for in, want := range map[string]string{
		"say pass":            "say ***",
		"password pass":       "*** ***",
		"?p=pass+word%2F1&q":  "?p=***&q",
		"/pass%20word%2F1/":   "/***/",
		"abc is too short":    "abc is too short",
		"pass word/1password": "******",
	} {
		if got := r.Redact(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	var b bytes.Buffer
	if n, err := fmt.Fprint(r.Writer(&b), "a password!"); n != 11 || err != nil || b.String() != "a ***!" {
		t.Errorf("%d, %v, %q", n, err, b.String())
	}
	if _, err := fmt.Fprint(r.Writer(failing{}), "x"); err == nil {
		t.Error("the error of the writer below is lost")
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("full") }

func TestRedactorLeavesNoValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r Redactor
		values := rapid.SliceOfN(rapid.StringMatching(`[a-e/]{4,8}`), 1, 5).Draw(t, "values")
		var wg sync.WaitGroup
		for _, v := range values {
			wg.Go(func() { r.Add(New(v)) })
		}
		wg.Wait()
		got := r.Redact(strings.Join(rapid.SliceOf(rapid.SampledFrom(append(values, " ", "x", "a"))).Draw(t, "text"), ""))
		for _, v := range values {
			if strings.Contains(got, v) {
				t.Fatalf("%q is in %q", v, got)
			}
		}
	})
}

func TestRedactorKeepsTheLastTokens(t *testing.T) {
	var r Redactor
	name := func(i int) string { return fmt.Sprintf("token-%04d", i) }
	r.Add(New("for-good"))
	for i := range 1000 {
		r.AddToken(New(name(i)))
		r.AddToken(New(name(i)))
		r.AddToken(New("for-good"))
	}
	for i := range 1000 {
		if hidden := r.Redact(name(i)) == masked; hidden != (i >= 1000-recent) {
			t.Errorf("%s: %v", name(i), hidden)
		}
	}
	if got := r.Redact("for-good"); got != masked {
		t.Error(got)
	}
	if n := testing.AllocsPerRun(10, func() { r.AddToken(New("token-0999")) }); n > 1 { // New's
		t.Errorf("%.0f allocations for a token that is known", n)
	}
}

// A token as long as they may be, of one letter, in a text of the same letter, is
// what takes longest.
func BenchmarkRedactLongToken(b *testing.B) {
	var r Redactor
	for i := range recent {
		r.AddToken(New(strings.Repeat("A", Longest-1-i) + "B"))
	}
	text := strings.Repeat("A", 64<<10)
	for b.Loop() {
		r.Redact(text)
	}
}

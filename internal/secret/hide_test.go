package secret

import (
	"encoding/base64"
	"fmt"
	"html"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestHide(t *testing.T) {
	for in, want := range map[string]string{
		"":                               "",
		"Bearer sec/r&t.":                "Bearer ***.",
		"sec/r&tsec/r&t":                 "******",
		`a sec\/ret sec\/r\u0026t`:       `a sec\/ret ***`,
		`\u0073ec\u002Fr\u0026\u0074`:    "***",
		`{"x":"{\"y\":\"sec\\\/r&t\"}"}`: `{"x":"{\"y\":\"***\"}"}`,
		"/login/sec%2Fr%26t?x":           "/login/***?x",
		"/login/sec%2fr%26t?x":           "/login/***?x",
		"/login/sec%252fr%2526t?x":       "/login/***?x",
		"<b>sec/r&amp;t</b>":             "<b>***</b>",
		"<b>sec&#x2f;r&#38;t</b>":        "<b>***</b>",
		"sec&sol;r&amp;amp;t;":           "***;",
		"sec/r%2":                        "sec/r%2",
		`sec/r\u00`:                      `sec/r\u00`,
		"sec/":                           "sec/",
		"100%sec/r&t":                    "100%***",
		"a &b; & ; &;":                   "a &b; & ; &;",
		strings.Repeat(`\`, 20):          strings.Repeat(`\`, 20),
	} {
		if got := Hide(in, "", "abc", "sec/r&t"); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if got := Hide(`%5Bx%5Dyz%5C"`, `[x]yz\`); got != `***%5C"` { // a backslash at the end belongs to what follows
		t.Error(got)
	}
	for _, c := range []struct{ text, want string }{
		{"one two", "***"}, {"a ones a", "a *** a"}, {"s two", "s two"}, {"one twone", "***"},
	} { // those that overlap are one
		if got := Hide(c.text, "one two", "ones", "twone"); got != c.want {
			t.Errorf("%q: %q, want %q", c.text, got, c.want)
		}
	}
}

// Whatever the value, and however its characters are spelled, it is found, and what
// stands around it is left alone.
func TestHideFindsEverySpelling(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.StringMatching(`[ -$&-[\]-~]{4,40}`).Draw(t, "value")
		spelled := ""
		for _, c := range []byte(value) {
			json := fmt.Sprintf(`\u%04x`, c)
			spelled += rapid.SampledFrom([]string{
				html.EscapeString(string(c)), json, `\` + json, fmt.Sprintf(`\u00%02X`, c), fmt.Sprintf("%%%02X", c), fmt.Sprintf("%%%02x", c),
				fmt.Sprintf("&#%d;", c), fmt.Sprintf("&#x%x;", c), fmt.Sprintf("%%25%02x", c), html.EscapeString(fmt.Sprintf("&#%d;", c)),
			}).Draw(t, "spelling")
		}
		if len(meant(value).text) < shortest {
			t.Skip("it is itself an escape")
		}
		if got := Hide("\x01\x02"+spelled+"\x03", value); got != "\x01\x02***\x03" {
			t.Fatalf("%q as %q: %q", value, spelled, got)
		}
	})
}

// A whole value that is encoded once, or twice, is found whatever is in it.
func TestHideFindsWhatIsEncoded(t *testing.T) {
	quote := func(s string) string { q := strconv.Quote(s); return q[1 : len(q)-1] }
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.StringMatching(`[ -~]{8,40}[!-[\]-~]`).Draw(t, "value")
		encoders := rapid.SliceOfN(rapid.SampledFrom([]func(string) string{
			url.QueryEscape, url.PathEscape, html.EscapeString, quote, strings.Clone,
		}), 1, 2).Draw(t, "encoders")
		if len(meant(value).text) < shortest || strings.Contains(value, `\u`) {
			t.Skip("it is itself an escape")
		}
		text := value
		for _, encode := range encoders {
			text = encode(text)
		}
		if got := Hide("\x01"+text+"\x03", value); got != "\x01***\x03" {
			t.Fatalf("%q as %q: %q", value, text, got)
		}
	})
}

func TestHideFindsBase64(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.StringMatching(`[!-~]{6,40}`).Draw(t, "value")
		before := rapid.StringMatching(`[a-z]{0,9}`).Draw(t, "before")
		after := rapid.StringMatching(`[a-z]{0,9}`).Draw(t, "after")
		for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding} {
			text := enc.EncodeToString([]byte(before + value + after))
			for _, text := range []string{text, url.QueryEscape(text), strings.ReplaceAll(text, "/", `\/`)} {
				got := Hide(text, value)
				// A digit at each end may hold some bits of the value, and more of others.
				left, right, found := strings.Cut(got, masked)
				if !found || len(left) > 3*(len(before)+2)/2 || len(right) > 3*(len(after)+3)/2+4 {
					t.Fatalf("%q in %q: %q", value, text, got)
				}
			}
		}
	})
}

// What each answer of the API costs.
func BenchmarkHide(b *testing.B) {
	for _, n := range []int{40, 1 << 10, Longest} {
		token := strings.Repeat("aB3-", n/4)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				Hide("01JQ2M9K-0001", token)
			}
		})
	}
}

func FuzzHide(f *testing.F) {
	f.Add(`\u00%2&#x41;&amp;\\\/`, "%41&amp;")
	f.Fuzz(func(t *testing.T, text, value string) {
		got := Hide(text, value)
		if len(value) >= shortest && !strings.Contains(masked, value) && strings.Contains(text, value) && got == text {
			t.Errorf("%q in %q", value, text)
		}
		m := meant(text)
		for i, at := range m.at {
			if at.from >= at.to || at.to > len(text) || i > 0 && at.from < m.at[i-1].to {
				t.Fatalf("%q: %v", text, m.at)
			}
		}
	})
}

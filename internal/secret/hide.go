package secret

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"html"
	"slices"
	"strconv"
	"strings"
)

// shortest is the length of the shortest value that is masked, in bytes. Masking
// "a" wherever it occurs would spoil every text and give it away as well.
const shortest = 4

// escapes are the bytes that escapes begin with.
const escapes = `\%&`

// Hide returns text with *** in place of each value, however it is spelled there:
// as it is, escaped as JSON, URLs, forms and HTML do, also by several of them one
// after the other, or in base64, alone or behind a user's name. Values of less than
// four bytes are not masked.
func Hide(text string, values ...string) string {
	s := newSearch(text)
	for _, v := range values {
		if len(v) <= len(text) || strings.ContainsAny(v, escapes) { // no spelling is shorter
			s.mark(needles(v))
		}
	}
	return s.masked()
}

// urlDigits are those of base64 that differ in URLs (RFC 4648, section 5).
var urlDigits = strings.NewReplacer("+", "-", "/", "_")

// needles returns what stands for v in a text, in the spelling of meant.
func needles(v string) []string {
	if len(v) < shortest {
		return nil
	}
	all := []string{v}
	if strings.ContainsAny(v, escapes+" ") {
		if m := strings.TrimSuffix(string(meant(v).text), `\`); len(m) >= shortest {
			all = append(all, m)
		}
	}
	// What is encoded along with v moves its bits within a group of three bytes. The
	// digits that hold a bit of others are left out.
	for before := range 3 {
		digits := base64.RawStdEncoding.EncodeToString(append(make([]byte, before), v...))
		digits = digits[(8*before+5)/6 : 8*(before+len(v))/6]
		all = append(all, digits)
		if forURLs := urlDigits.Replace(digits); forURLs != digits {
			all = append(all, forURLs)
		}
	}
	return all
}

// search finds needles in a text, in time that grows with the text's length only.
type search struct {
	text  string
	meant spelling // empty: text has no escapes
	found []span
}

type span struct{ from, to int }

func newSearch(text string) *search {
	s := &search{text: text}
	if strings.ContainsAny(text, escapes) {
		s.meant = meant(text)
	}
	return s
}

func (s *search) mark(needles []string) {
	for _, n := range needles {
		for at := 0; ; at += len(n) {
			i := strings.Index(s.text[at:], n)
			if i < 0 {
				break
			}
			at += i
			s.found = append(s.found, span{at, at + len(n)})
		}
		for at := 0; ; at += len(n) {
			i := bytes.Index(s.meant.text[at:], []byte(n))
			if i < 0 {
				break
			}
			at += i
			s.found = append(s.found, span{s.meant.at[at].from, s.meant.at[at+len(n)-1].to})
		}
	}
}

// masked is the text with *** in place of what was found; one for all that overlap.
func (s *search) masked() string {
	if len(s.found) == 0 {
		return s.text
	}
	slices.SortFunc(s.found, func(a, b span) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(b.to, a.to)) })
	var b strings.Builder
	done := 0
	for _, f := range s.found {
		if f.from >= done {
			b.WriteString(s.text[done:f.from])
			b.WriteString(masked)
		}
		done = max(done, f.to)
	}
	b.WriteString(s.text[done:])
	return b.String()
}

// spelling is a text freed of escapes: text[i] was spelled by the source at at[i].
type spelling struct {
	text []byte
	at   []span
}

// meant reads s as those do who undo every escape in it until none is left: \c,
// \u00xx, %xx, &#nn; and entities that have names. A blank is read as a plus,
// which forms write for it. So all spellings of one value are read alike.
func meant(s string) spelling {
	m := spelling{make([]byte, 0, len(s)), make([]span, 0, len(s))}
	for i := range len(s) {
		m.push(s[i], span{i, i + 1})
	}
	return m
}

// push appends c, and undoes the escape that it completes.
func (m *spelling) push(c byte, at span) {
	if c == ' ' {
		c = '+'
	}
	if last := len(m.text) - 1; last >= 0 && m.text[last] == '\\' && c != 'u' {
		at.from = m.at[last].from
		m.text, m.at = m.text[:last], m.at[:last]
	}
	m.text, m.at = append(m.text, c), append(m.at, at)
	if n, c := escape(m.text); n > 0 {
		first := len(m.text) - n
		at.from = m.at[first].from
		m.text, m.at = m.text[:first], m.at[:first]
		m.push(c, at)
	}
}

// longestEntity bounds &name; and &#nn;, in bytes.
const longestEntity = 12

// escape returns the length of the escape that text ends with, and what it stands
// for; 0: there is none.
func escape(text []byte) (n int, c byte) {
	n = len(text)
	if n >= 3 && text[n-3] == '%' || n >= 6 && string(text[n-6:n-2]) == `\u00` {
		if v, err := strconv.ParseUint(string(text[n-2:]), 16, 8); err == nil {
			if text[n-3] == '%' {
				return 3, byte(v)
			}
			return 6, byte(v)
		}
	}
	if n == 0 || text[n-1] != ';' {
		return 0, 0
	}
	tail := text[max(0, n-longestEntity):]
	tail = tail[max(0, bytes.LastIndexByte(tail, '&')):]
	if s := html.UnescapeString(string(tail)); len(s) == 1 && len(tail) > 1 {
		return len(tail), s[0]
	}
	return 0, 0
}

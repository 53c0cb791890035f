package secret

import (
	"cmp"
	"io"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// RedactURL returns u with *** in place of user and password. What is no URL is
// taken for one that a person mistyped: everything up to its last @ is masked.
func RedactURL(u string) string {
	start := 0
	if i := strings.Index(u, "://"); i >= 0 {
		start = i + len("://")
	} else if strings.HasPrefix(u, "//") {
		start = len("//")
	}
	end := len(u)
	if _, err := url.Parse(u); err == nil && start > 0 {
		if i := strings.IndexAny(u[start:], "/?#"); i >= 0 {
			end = start + i
		}
	}
	at := strings.LastIndexByte(u[start:end], '@')
	if at < 0 {
		return u
	}
	return u[:start] + masked + u[start+at:]
}

// shortest is the length of the shortest value a Redactor replaces, in bytes.
// Masking "a" wherever it occurs would spoil every text and give it away as well.
const shortest = 4

// Redactor masks known values in texts that others wrote. The zero Redactor knows
// none and is ready for use. It is safe for concurrent use.
type Redactor struct {
	mu     sync.RWMutex
	values []string          // guarded by mu; longest first
	masks  *strings.Replacer // guarded by mu; nil before the first value
}

// Add makes the value of s known, also as it is written in a URL or a form.
// Values of less than four bytes are not masked.
func (r *Redactor) Add(s Secret) {
	v := s.Reveal()
	if len(v) < shortest {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, form := range []string{v, url.QueryEscape(v), url.PathEscape(v)} {
		if !slices.Contains(r.values, form) {
			r.values = append(r.values, form)
		}
	}
	// Of two values that begin at one place the longer has to go.
	slices.SortFunc(r.values, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	pairs := make([]string, 0, 2*len(r.values))
	for _, v := range r.values {
		pairs = append(pairs, v, masked)
	}
	r.masks = strings.NewReplacer(pairs...)
}

// Redact returns text with *** in place of every known value.
func (r *Redactor) Redact(text string) string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.masks == nil {
		return text
	}
	return r.masks.Replace(text)
}

// Writer returns a writer that masks what is written and passes it on to w, one
// Write for one. It is for logs, which are written whole lines at a time: a value
// that is split between two Writes is not found.
func (r *Redactor) Writer(w io.Writer) io.Writer { return masking{r, w} }

type masking struct {
	r *Redactor
	w io.Writer
}

func (m masking) Write(p []byte) (int, error) {
	if _, err := io.WriteString(m.w, m.r.Redact(string(p))); err != nil {
		return 0, err // how much of p that was cannot be said
	}
	return len(p), nil
}

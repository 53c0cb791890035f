package secret

import (
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

// recent is how many tokens a Redactor remembers: more than are in use at once.
const recent = 16

// Redactor masks known values in texts that others wrote, as Hide does. The zero
// Redactor knows none and is ready for use. It is safe for concurrent use.
type Redactor struct {
	mu     sync.RWMutex
	kept   []known // guarded by mu
	tokens []known // guarded by mu; the oldest first, at most recent
}

type known struct {
	value   string
	needles []string
}

// Add makes the value of s known for good.
func (r *Redactor) Add(s Secret) { r.add(s.Reveal(), &r.kept, -1) }

// AddToken makes the value of s known until sixteen others have come: a run has
// one token after the other, and an old one is worth nothing.
func (r *Redactor) AddToken(s Secret) { r.add(s.Reveal(), &r.tokens, recent) }

// add appends v to a list of at most that many, of any number when it is negative.
func (r *Redactor) add(v string, list *[]known, most int) {
	r.mu.RLock()
	done := len(v) < shortest || r.knows(v)
	r.mu.RUnlock()
	if done { // as nearly always: each request adds its token
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.knows(v) {
		return
	}
	*list = append(*list, known{v, needles(v)})
	if len(*list) == most+1 {
		*list = slices.Delete(*list, 0, 1)
	}
}

// knows tells whether v was added. requires mu, to read.
func (r *Redactor) knows(v string) bool {
	same := func(k known) bool { return k.value == v }
	return slices.ContainsFunc(r.tokens, same) || slices.ContainsFunc(r.kept, same)
}

// Redact returns text with *** in place of every known value.
func (r *Redactor) Redact(text string) string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if text == "" {
		return text
	}
	s := newSearch(text)
	for _, k := range r.kept {
		s.mark(k.needles)
	}
	for _, k := range r.tokens {
		s.mark(k.needles)
	}
	return s.masked()
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

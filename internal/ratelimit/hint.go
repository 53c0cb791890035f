package ratelimit

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	// longestWindow is the longest time calls are spread over. What a server
	// grants for longer, a day say, is a stock and not a pace: it may be used at
	// once, and when it is spent the server says so. A hostile "t" ends here too.
	longestWindow = 5 * time.Minute
	// In a window shorter than shortWindow only its pace counts.
	shortWindow = 5 * time.Second
	// epochFrom tells the two readings of a reset time apart: a number as large
	// as this is a date (of 2001 or later), a smaller one is seconds from now.
	epochFrom = 1e9
	// A line longer than maxHint bytes is not read; nor is more of one field
	// than its first maxMembers members.
	maxHint    = 1024
	maxMembers = 16
)

// Hint is what an answer says about the rate its server bears. The zero value
// says nothing. No number in it is negative, NaN or infinite.
type Hint struct {
	Remaining float64       // calls left until Reset; meaningless when Reset is 0
	Reset     time.Duration // at most five minutes; 0: not said
	Limit     float64       // calls granted per Window; 0: not said
	Window    time.Duration // at most five minutes; 0: not said
}

// rate returns the calls per second that use up what is granted and no more; 0
// when nothing is left until Reset, infinity when nothing is said.
func (h Hint) rate() float64 {
	rate := math.Inf(1)
	if h.Limit > 0 && h.Window > 0 {
		rate = h.Limit / h.Window.Seconds()
	}
	left := h.Reset.Seconds()
	switch {
	case left <= 0:
	case math.IsInf(rate, 1):
		rate = h.Remaining / left
	case h.Window < shortWindow:
		// Reset is rounded to seconds: it says little about a window of a few.
	case left >= 2 || h.Remaining < rate/4:
		// It is mostly rounded up. The second is given back, or each window would
		// end with calls unused; in its last second only a real want counts.
		rate = min(rate, h.Remaining/max(left-1, 1))
	}
	return rate
}

// ParseHints reads what an answer says about its server's limits, in the first
// of these forms that it has:
//
//   - RateLimit and RateLimit-Policy (draft-ietf-httpapi-ratelimit-headers-10):
//     "default";r=50;t=30 and "burst";q=100;w=60, and their older spellings
//     limit=100, remaining=50, reset=30 and 100;w=60. Of several policies the
//     one counts that allows the lowest rate.
//   - RateLimit-Limit, -Remaining and -Reset of that draft's early versions.
//   - X-RateLimit-Limit, -Remaining and -Reset. The reset is in seconds from
//     now or, from 1e9 on, a date in seconds (from 1e12 on in milliseconds)
//     since 1970, taken relative to the answer's Date or, without one, to now.
//
// Retry-After takes precedence: beside it Remaining and Reset are left out. What
// is no number of digits and a point, is out of all proportion or reaches beyond
// five minutes is passed over. ok is false when nothing is left.
func ParseHints(h http.Header, now time.Time) (hint Hint, ok bool) {
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	hint = draftHint(h, now)
	for _, prefix := range [...]string{"Ratelimit-", "X-Ratelimit-"} {
		if hint == (Hint{}) {
			hint = trioHint(h, prefix, now)
		}
	}
	if h.Get("Retry-After") != "" {
		hint.Remaining, hint.Reset = 0, 0
	}
	if hint.Reset == 0 && (hint.Limit == 0 || hint.Window == 0) {
		return Hint{}, false
	}
	return hint, true
}

// draftHint reads RateLimit and RateLimit-Policy. The two are joined by name.
func draftHint(h http.Header, now time.Time) Hint {
	byName := map[string]Hint{}
	for _, m := range members(h.Values("Ratelimit-Policy")) {
		hint := byName[m.name]
		hint.setPolicy(m)
		byName[m.name] = hint
	}
	var dict Hint // limit=100, remaining=50, reset=30: one hint in three members
	var left string
	for _, m := range members(h.Values("Ratelimit")) {
		hint := byName[m.name]
		hint.setLeft(m.params["r"], m.params["t"], now)
		byName[m.name] = hint
		switch m.name {
		case "limit":
			dict.Limit = positive(m.value)
		case "remaining":
			left = m.value
		case "reset":
			dict.setLeft(left, m.value, now)
		}
	}
	tightest := dict
	for _, hint := range byName {
		if hint.rate() < tightest.rate() {
			tightest = hint
		}
	}
	return tightest
}

// trioHint reads the three fields that begin with prefix.
func trioHint(h http.Header, prefix string, now time.Time) Hint {
	var hint Hint
	for i, m := range members(h.Values(prefix + "Limit")) {
		if i == 0 {
			hint.Limit = positive(m.name)
		} else if hint.Window == 0 && positive(m.name) == hint.Limit {
			hint.setPolicy(m) // "100, 100;w=60": the limit, then its policies
		}
	}
	hint.setLeft(h.Get(prefix+"Remaining"), h.Get(prefix+"Reset"), now)
	return hint
}

func (h *Hint) setPolicy(m member) {
	quota, said := m.params["q"]
	if !said {
		quota = m.name
	}
	limit, window := positive(quota), seconds(positive(m.params["w"]))
	if limit > 0 && window > 0 {
		h.Limit, h.Window = limit, window
	}
}

func (h *Hint) setLeft(remaining, reset string, now time.Time) {
	left, ok := number(remaining)
	at, ok2 := number(reset)
	if !ok || !ok2 {
		return
	}
	if at >= 1000*epochFrom {
		at /= 1000
	}
	if at >= epochFrom {
		at -= float64(now.UnixNano()) / 1e9
	}
	if wait := seconds(at); wait > 0 {
		h.Remaining, h.Reset = left, wait
	}
}

// seconds returns s as a duration, or 0 when it is none to be spread over.
func seconds(s float64) time.Duration {
	if s <= 0 || s > longestWindow.Seconds() {
		return 0
	}
	return time.Duration(s * float64(time.Second))
}

// positive returns the number in text, or 0 when it is none.
func positive(text string) float64 {
	n, _ := number(text)
	return n
}

// number reads digits with at most one point. strconv alone would let "NaN",
// signs, exponents and hexadecimals pass.
func number(text string) (float64, bool) {
	text = strings.Trim(text, " \t")
	if text == "" || len(text) > 16 || strings.Trim(text, "0123456789.") != "" {
		return 0, false
	}
	n, err := strconv.ParseFloat(text, 64)
	return n, err == nil
}

// member is one of a list: name;key=value;…, where the name may be quoted or
// itself be key=value.
type member struct {
	name, value string
	params      map[string]string
}

// members splits the lines of a field. It is lenient: what is no structured
// field (RFC 9651) yields members without use.
func members(lines []string) []member {
	var list []member
	for _, line := range lines {
		if len(line) > maxHint {
			continue
		}
		for _, part := range splitUnquoted(line, ',') {
			if len(list) == maxMembers {
				return list
			}
			words := splitUnquoted(part, ';')
			m := member{params: map[string]string{}}
			m.name, m.value, _ = strings.Cut(strings.Trim(words[0], " \t"), "=")
			for _, w := range words[1:] {
				key, value, _ := strings.Cut(strings.Trim(w, " \t"), "=")
				m.params[key] = value
			}
			list = append(list, m)
		}
	}
	return list
}

// splitUnquoted splits at every sep that stands outside of "…".
func splitUnquoted(s string, sep byte) []string {
	var parts []string
	start, quoted := 0, false
	for i := 0; i < len(s); i++ {
		switch {
		case quoted && s[i] == '\\':
			i++
		case s[i] == '"':
			quoted = !quoted
		case s[i] == sep && !quoted:
			parts = append(parts, s[start:i])
			start = i + 1
		}
	}
	return append(parts, s[start:])
}

package retry

import (
	"math"
	"net/http"
	"strings"
	"time"
)

// ParseRetryAfter reads the Retry-After lines of an answer (RFC 9110, section
// 10.2.3): delay seconds, or one of the three HTTP-date forms (section 5.6.7).
//
// A date is taken relative to the answer's own Date, so that a wrong clock on
// either side does not matter, or to now when Date is absent or unreadable. A
// date gone by is 0, true. Of several readable lines the longest wait counts.
// Anything else ("-5", "1.5", "5, 7", "soon") is no answer: 0, false.
// The result is never negative and saturates at the largest Duration.
func ParseRetryAfter(h http.Header, now time.Time) (d time.Duration, ok bool) {
	base := now
	if date, err := parseDate(trimOWS(h.Get("Date")), now); err == nil {
		base = date
	}
	for _, line := range h.Values("Retry-After") {
		if wait, valid := parseOne(trimOWS(line), base); valid {
			d, ok = max(d, wait), true
		}
	}
	return d, ok
}

func parseOne(v string, base time.Time) (time.Duration, bool) {
	if d, ok := parseSeconds(v); ok {
		return d, true
	}
	date, err := parseDate(v, base)
	if err != nil {
		return 0, false
	}
	return max(date.Sub(base), 0), true // Sub saturates
}

// parseSeconds accepts digits only: strconv would let a sign or an underscore
// pass and reports a range error where saturation is wanted.
func parseSeconds(v string) (time.Duration, bool) {
	if v == "" {
		return 0, false
	}
	const most = int64(math.MaxInt64 / time.Second)
	var n int64
	for i := range len(v) {
		c := v[i]
		if c < '0' || c > '9' {
			return 0, false
		}
		if n <= most {
			n = n*10 + int64(c-'0')
		}
	}
	if n > most {
		return math.MaxInt64, true
	}
	return time.Duration(n) * time.Second, true
}

// parseDate reads an HTTP date. near settles the century of the RFC 850 form.
func parseDate(v string, near time.Time) (time.Time, error) {
	if t, err := time.Parse(http.TimeFormat, v); err == nil {
		return t, nil
	}
	// An unknown zone name parses as an offset of nought, so only GMT may pass.
	if strings.HasSuffix(v, " GMT") {
		if t, err := time.Parse(time.RFC850, v); err == nil {
			return century(t, near), nil
		}
	}
	return time.Parse(time.ANSIC, v)
}

// century moves a two-digit year so that it is at most 50 years ahead of near
// (RFC 9110, section 5.6.7). package time pivots at 1969, whatever the year is.
func century(t, near time.Time) time.Time {
	year := t.Year()%100 + near.Year()/100*100
	if year > near.Year()+50 {
		year -= 100
	} else if year <= near.Year()-50 {
		year += 100
	}
	return time.Date(year, t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), 0, time.UTC)
}

// trimOWS trims optional white space (RFC 9110, section 5.6.3), nothing else.
func trimOWS(v string) string { return strings.Trim(v, " \t") }

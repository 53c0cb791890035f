package retry

import (
	"math"
	"net/http"
	"testing"
	"time"
)

var noon = time.Date(2026, 7, 17, 12, 0, 0, 0, time.UTC)

func TestParseRetryAfter(t *testing.T) {
	const maxD = time.Duration(math.MaxInt64)
	for _, c := range []struct {
		name, date string
		lines      []string
		want       time.Duration
		ok         bool
	}{
		{"absent", "", nil, 0, false},
		{"seconds", "", []string{"120"}, 2 * time.Minute, true},
		{"nought", "", []string{"0"}, 0, true},
		{"leading noughts", "", []string{"007"}, 7 * time.Second, true},
		{"largest that fits", "", []string{"9223372036"}, 9223372036 * time.Second, true},
		{"one more than fits", "", []string{"9223372037"}, maxD, true},
		{"more than an int64", "", []string{"99999999999999999999999999"}, maxD, true},
		{"white space", "", []string{" 5 "}, 5 * time.Second, true},
		{"tab", "", []string{"\t5"}, 5 * time.Second, true},
		{"negative", "", []string{"-5"}, 0, false},
		{"sign", "", []string{"+5"}, 0, false},
		{"fraction", "", []string{"1.5"}, 0, false},
		{"empty", "", []string{""}, 0, false},
		{"exponent", "", []string{"1e3"}, 0, false},
		{"hexadecimal", "", []string{"0x10"}, 0, false},
		{"underscore", "", []string{"1_0"}, 0, false},
		{"other digits", "", []string{"٣"}, 0, false},
		{"list", "", []string{"5, 7"}, 0, false},
		{"words", "", []string{"soon"}, 0, false},
		{"IMF-fixdate", "", []string{"Fri, 17 Jul 2026 12:00:04 GMT"}, 4 * time.Second, true},
		{"RFC 850", "", []string{"Friday, 17-Jul-26 12:00:04 GMT"}, 4 * time.Second, true},
		{"asctime", "", []string{"Fri Jul 17 12:00:04 2026"}, 4 * time.Second, true},
		{"asctime, short day", "Sat, 04 Jul 2026 12:00:00 GMT", []string{"Sat Jul  4 12:00:04 2026"}, 4 * time.Second, true},
		{"past date", "", []string{"Sun, 06 Nov 1994 08:49:37 GMT"}, 0, true},
		{"past date, RFC 850", "", []string{"Sunday, 06-Nov-94 08:49:37 GMT"}, 0, true},
		{"RFC 850 within 50 years", "", []string{"Friday, 17-Jul-70 12:00:00 GMT"}, time.Date(2070, 7, 17, 12, 0, 0, 0, time.UTC).Sub(noon), true},
		{"far date saturates", "", []string{"Fri, 31 Dec 9999 23:59:59 GMT"}, maxD, true},
		{"other zone", "", []string{"Fri, 17 Jul 2026 12:00:04 EST"}, 0, false},
		{"other zone, RFC 850", "", []string{"Friday, 17-Jul-26 12:00:04 EST"}, 0, false},
		{"no such day", "", []string{"Fri, 31 Jun 2026 12:00:04 GMT"}, 0, false},
		{"server's clock is ahead", "Fri, 17 Jul 2026 12:10:00 GMT", []string{"Fri, 17 Jul 2026 12:10:04 GMT"}, 4 * time.Second, true},
		{"server's clock is behind", "Fri, 17 Jul 2026 11:50:00 GMT", []string{"Fri, 17 Jul 2026 11:50:04 GMT"}, 4 * time.Second, true},
		{"unreadable Date", "yesterday", []string{"Fri, 17 Jul 2026 12:00:04 GMT"}, 4 * time.Second, true},
		{"two lines", "", []string{"5", "7"}, 7 * time.Second, true},
		{"two lines, larger first", "", []string{"7", "5"}, 7 * time.Second, true},
		{"two lines, date and seconds", "", []string{"Fri, 17 Jul 2026 12:00:09 GMT", "5"}, 9 * time.Second, true},
		{"two lines, one junk", "", []string{"soon", "5"}, 5 * time.Second, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := http.Header{"Retry-After": c.lines}
			if c.date != "" {
				h.Set("Date", c.date)
			}
			if d, ok := ParseRetryAfter(h, noon); d != c.want || ok != c.ok {
				t.Errorf("got %s, %v; want %s, %v", d, ok, c.want, c.ok)
			}
		})
	}
}

func FuzzParseRetryAfter(f *testing.F) {
	for _, v := range []string{"9223372037", "-5", "1.5", "", "1e3", "0x10", " 5 ", "5, 7", "Friday, 17-Jul-26 12:00:04 GMT", "Fri Jul 17 12:00:04 2026"} {
		f.Add(v, "3", "Fri, 17 Jul 2026 12:00:00 GMT")
	}
	f.Fuzz(func(t *testing.T, one, two, date string) {
		parse := func(lines ...string) (time.Duration, bool) {
			return ParseRetryAfter(http.Header{"Retry-After": lines, "Date": {date}}, noon)
		}
		d, ok := parse(one, two)
		if d < 0 || !ok && d != 0 {
			t.Fatalf("got %s, %v", d, ok)
		}
		d1, ok1 := parse(one)
		d2, ok2 := parse(two)
		if ok != (ok1 || ok2) || d != max(d1, d2) {
			t.Fatalf("%q, %q together %s, apart %s and %s", one, two, d, d1, d2)
		}
	})
}

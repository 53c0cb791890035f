package clockskew

import (
	"net/http"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A measurement counts for some minutes, unless there is no other.
func TestKept(t *testing.T) {
	var src source
	src.add(interval{0, s}, 0)
	for n := range 4 {
		src.add(interval{-s, 10 * s}, time.Duration(n)*kept/2)
	}
	if got := src.where(); got != (interval{0, s}) {
		t.Errorf("%v", got)
	}
	src.add(interval{-s, 9 * s}, 2*kept)
	if got := src.where(); got != (interval{-s, 9 * s}) {
		t.Errorf("%v", got)
	}
	src.add(interval{20 * s, 30 * s}, 2*kept)
	if got := src.where(); got != (interval{20 * s, 30 * s}) {
		t.Errorf("a contradiction: %v", got)
	}
}

func TestFromDate(t *testing.T) {
	now := time.Now()
	at, year := date(now), 365*24*time.Hour
	with := func(name, value string) http.Header {
		h := at.Clone()
		h.Set(name, value)
		return h
	}
	for name, c := range map[string]struct {
		h        http.Header
		sent     time.Time
		received time.Time
		known    bool
	}{
		"good":                 {at, now, now.Add(s), true},
		"at once":              {at, now, now, true},
		"no date":              {http.Header{}, now, now, false},
		"no time":              {with("Date", "yesterday"), now, now, false},
		"of the year 1":        {with("Date", "Mon, 01 Jan 0001 00:00:00 GMT"), now, now, false},
		"of the year 9999":     {with("Date", "Fri, 31 Dec 9999 23:59:59 GMT"), now, now, false},
		"from a cache":         {with("Age", "1"), now, now, false},
		"through a cache":      {with("Age", "0"), now, now, true},
		"an age that is none":  {with("Age", "old"), now, now, true},
		"answered before":      {at, now.Add(ms), now, false},
		"we are in 1970":       {at, time.Unix(9, 0), time.Unix(10, 0), true},
		"the clock was set":    {at, now, set(t, now.Add(s), s), false},
		"and back":             {at, now, set(t, now.Add(s), -s), false},
		"after very long":      {at, now.Add(-150 * year), now, false},
		"another form of date": {with("Date", now.UTC().Format(time.ANSIC)), now, now, true},
	} {
		offset, within, known := FromDate(c.h, c.sent, c.received)
		if known != c.known || !known && (offset != 0 || within != 0) {
			t.Errorf("%s: %s give or take %s, %v", name, offset, within, known)
		}
	}
}

func TestMid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lo := span(t, "lo", 10) - 5
		iv := interval{lo, lo + span(t, "width", 5)}
		if offset, within := iv.mid(); offset-within > iv.lo || offset+within < iv.hi {
			t.Fatalf("%v: %s give or take %s", iv, offset, within)
		}
	})
}

// Whatever a server writes, what is measured is finite and holds together.
func FuzzDate(f *testing.F) {
	f.Add("Fri, 17 Jul 2026 00:00:00 GMT", "", int64(1e9))
	f.Add("Fri Jul 17 00:00:00 2026", "0", int64(0))
	f.Add("Friday, 17-Jul-26 00:00:00 GMT", "x", int64(-1))
	now := time.Date(2026, 7, 17, 0, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, written, age string, took int64) {
		h := http.Header{"Date": {written}, "Age": {age}}
		offset, within, known := FromDate(h, now, now.Add(time.Duration(took)))
		if iv := (interval{offset - within, offset + within}); known && (within < 0 || !iv.sane()) {
			t.Fatalf("%s give or take %s", offset, within)
		}
	})
}

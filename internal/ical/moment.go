package ical

import (
	"strings"
	"time"
	_ "time/tzdata" // hosts without a zone database read the same times
)

// moment is a time as a file says it: what the clock on the wall shows in a zone.
type moment struct {
	wall time.Time // as if it were UTC
	zone *time.Location
	date bool // a whole day
}

// at is the moment itself. A time that the wall skips is taken as if the clock had
// not been set yet, and one that it shows twice is the first (RFC 5545 3.3.5).
func (m moment) at() time.Time {
	var ways [2]time.Time
	for i, near := range []time.Duration{-24 * time.Hour, 24 * time.Hour} { // before a change, and after
		_, offset := m.wall.Add(near).In(m.zone).Zone()
		ways[i] = m.wall.Add(-time.Duration(offset) * time.Second)
		if wallOf(ways[i], m.zone).Equal(m.wall) {
			return ways[i]
		}
	}
	return ways[0]
}

// wallOf is what the wall shows at t.
func wallOf(t time.Time, zone *time.Location) time.Time {
	_, offset := t.In(zone).Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

// moment reads one time of a property. local is the zone of times that name none.
func (l line) moment(text string, local *time.Location) (m moment, err error) {
	m.zone = local
	if id := l.params["TZID"]; id != "" {
		if m.zone, err = zone(id); err != nil {
			return m, l.fault("unknown time zone %q: want a name of the IANA database, as America/New_York", id)
		}
	}
	switch {
	case len(text) == len("20060102"):
		m.date = true
		m.wall, err = time.Parse("20060102", text)
	case strings.HasSuffix(text, "Z"):
		m.zone = time.UTC
		m.wall, err = time.Parse("20060102T150405Z", text)
	default:
		m.wall, err = time.Parse("20060102T150405", text)
	}
	if err != nil {
		return m, l.fault("%q is no time: want one such as 20260314T020000Z", text)
	}
	return m, nil
}

// moments reads a list.
func (l line) moments(local *time.Location) (all []moment, err error) {
	if l.params["VALUE"] == "PERIOD" {
		return nil, l.fault("periods are not read: want times")
	}
	for text := range strings.SplitSeq(l.value, ",") {
		m, err := l.moment(text, local)
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

// zone finds a zone by its name, which may have that of its source before it.
func zone(id string) (*time.Location, error) {
	z, err := time.LoadLocation(strings.TrimPrefix(id, "/"))
	for err != nil {
		_, rest, ok := strings.Cut(strings.TrimPrefix(id, "/"), "/")
		if !ok {
			return nil, err
		}
		id = rest
		z, err = time.LoadLocation(id)
	}
	if z == time.Local { // that of this process, which no file can mean
		return nil, errLocal
	}
	return z, nil
}

// length is how long an event takes: whole days by the wall, and a time.
type length struct {
	days int
	time time.Duration
}

// length reads a duration such as P1DT2H.
func (l line) length() (d length, err error) {
	bad := l.fault("%q is no duration: want one such as PT2H or P1D", l.value)
	text, ok := strings.CutPrefix(strings.TrimPrefix(l.value, "+"), "P")
	if !ok || text == "" {
		return d, bad
	}
	units, n, digits := "WD", 0, 0
	for _, r := range text {
		switch i := strings.IndexRune(units, r); {
		case r >= '0' && r <= '9' && digits < 6:
			n, digits = 10*n+int(r-'0'), digits+1
			continue
		case r == 'T' && digits == 0 && units != "HMS":
			units = "HMS"
			continue
		case i < 0 || digits == 0:
			return d, bad
		}
		switch r {
		case 'W':
			d.days += 7 * n
		case 'D':
			d.days += n
		default:
			d.time += time.Duration(n) * map[rune]time.Duration{'H': time.Hour, 'M': time.Minute, 'S': time.Second}[r]
		}
		n, digits = 0, 0
	}
	if digits > 0 {
		return d, bad
	}
	return d, nil
}

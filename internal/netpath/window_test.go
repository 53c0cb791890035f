package netpath

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func mustParse(t testing.TB, s Spec) Window {
	t.Helper()
	if s.Path == "" {
		s.Path = "primary"
	}
	w, err := ParseWindow(s)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func utc(s string) time.Time {
	t, err := time.Parse("2006-01-02 15:04", s)
	if err != nil {
		panic(err)
	}
	return t
}

func TestParseWindowErrors(t *testing.T) {
	for _, c := range []struct {
		s    Spec
		want string
	}{
		{Spec{From: "02:00", To: "08:00"}, `path: missing, write the name of a path, as "primary"`},
		{Spec{Path: "p", Days: []string{"sun", "Sunday"}, From: "02:00", To: "08:00"}, `days: "Sunday" is not a day, write mon, tue`},
		{Spec{Path: "p", From: "120", To: "08:00"}, `from: "120" is not a time of day from "00:00" to "23:59", write it in quotes, as "02:00"`},
		{Spec{Path: "p", From: "2:0", To: "08:00"}, `from: "2:0" is not`},
		{Spec{Path: "p", From: "2:00", To: "08:00"}, `from: "2:00" is not`},
		{Spec{Path: "p", From: "02:0", To: "08:00"}, `from: "02:0" is not`},
		{Spec{Path: "p", From: "", To: "08:00"}, `from: "" is not`},
		{Spec{Path: "p", From: "24:00", To: "08:00"}, `from: "24:00" can only be an end`},
		{Spec{Path: "p", From: "02:00", To: "28800"}, `to: "28800" is not`},
		{Spec{Path: "p", From: "02:00", To: "24:01"}, `to: "24:01" is not`},
		{Spec{Path: "p", From: "02:00", To: "08:60"}, `to: "08:60" is not`},
		{Spec{Path: "p", From: "02:00", To: "+8:00"}, `to: "+8:00" is not`},
		{Spec{Path: "p", From: "02:00", To: "02:00"}, `to: the same as from, for a whole day write from "00:00" to "24:00"`},
		{Spec{Path: "p", From: "02:00", To: "08:00", TZ: "Mars/Olympus"}, `tz: unknown zone "Mars/Olympus", write a name of the IANA`},
		{Spec{Path: "p", From: "02:00", To: "08:00", TZ: "Local"}, `tz: unknown zone "Local"`},
		{Spec{Path: "p", From: "02:00", To: "08:00", TZ: "../UTC"}, `tz: unknown zone`},
	} {
		if _, err := ParseWindow(c.s); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %s", c.s, err, c.want)
		}
	}
}

// Each window with the moments it has to have, in UTC.
func TestSpan(t *testing.T) {
	const (
		newYork   = "America/New_York"    // 2026: 8 March 07:00 +1h, 1 November 06:00 -1h
		berlin    = "Europe/Berlin"       // 2026: 29 March 01:00 +1h, 25 October 01:00 -1h
		kathmandu = "Asia/Kathmandu"      // +05:45 all year
		lordHowe  = "Australia/Lord_Howe" // 2026: 4 April 15:00 -30m, 3 October 15:30 +30m
		apia      = "Pacific/Apia"        // 2011: 30 December skipped; 2020: 4 April 14:00 -1h
	)
	for _, c := range []struct {
		name       string
		days       string
		from, to   string
		tz         string
		at         string
		start, end string
	}{
		{"utc inside", "sun", "02:00", "08:00", "", "2026-07-19 05:00", "2026-07-19 02:00", "2026-07-19 08:00"},
		{"first moment", "sun", "02:00", "08:00", "", "2026-07-19 02:00", "2026-07-19 02:00", "2026-07-19 08:00"},
		{"last moment", "sun", "02:00", "08:00", "", "2026-07-19 08:00", "2026-07-26 02:00", "2026-07-26 08:00"},
		{"every day", "", "02:00", "08:00", "UTC", "2026-07-18 09:00", "2026-07-19 02:00", "2026-07-19 08:00"},
		{"two days", "mon thu", "02:00", "08:00", "", "2026-07-20 09:00", "2026-07-23 02:00", "2026-07-23 08:00"},
		{"over midnight", "sat", "22:00", "04:00", "", "2026-07-19 01:00", "2026-07-18 22:00", "2026-07-19 04:00"},
		{"over midnight, not its day", "sat", "22:00", "04:00", "", "2026-07-18 01:00", "2026-07-18 22:00", "2026-07-19 04:00"},
		{"until midnight", "sat", "22:00", "24:00", "", "2026-07-18 23:59", "2026-07-18 22:00", "2026-07-19 00:00"},
		{"until midnight, as 00:00", "sat", "22:00", "00:00", "", "2026-07-18 23:59", "2026-07-18 22:00", "2026-07-19 00:00"},
		{"whole day", "sat", "00:00", "24:00", "", "2026-07-18 12:00", "2026-07-18 00:00", "2026-07-19 00:00"},

		{"winter", "", "02:30", "08:00", newYork, "2026-03-07 05:00", "2026-03-07 07:30", "2026-03-07 13:00"},
		{"summer", "", "02:30", "08:00", newYork, "2026-03-09 05:00", "2026-03-09 06:30", "2026-03-09 12:00"},
		{"begins in the gap", "", "02:30", "08:00", newYork, "2026-03-08 05:00", "2026-03-08 07:00", "2026-03-08 12:00"},
		{"ends in the gap", "", "01:00", "02:30", newYork, "2026-03-08 05:00", "2026-03-08 06:00", "2026-03-08 07:00"},
		{"begins where the gap does", "", "02:00", "04:00", newYork, "2026-03-08 05:00", "2026-03-08 07:00", "2026-03-08 08:00"},
		{"all in the gap", "", "02:15", "02:45", newYork, "2026-03-08 05:00", "2026-03-08 07:00", "2026-03-08 07:30"},
		{"exactly the gap", "", "02:00", "03:00", newYork, "2026-03-08 05:00", "2026-03-08 07:00", "2026-03-08 08:00"},
		{"over the gap", "sat", "22:00", "04:00", newYork, "2026-03-08 07:59", "2026-03-08 03:00", "2026-03-08 08:00"},
		{"begins twice", "", "01:30", "04:00", newYork, "2026-11-01 05:00", "2026-11-01 05:30", "2026-11-01 09:00"},
		{"ends twice", "", "00:00", "01:30", newYork, "2026-11-01 06:29", "2026-11-01 04:00", "2026-11-01 06:30"},
		{"all of it twice", "", "01:15", "01:45", newYork, "2026-11-01 06:00", "2026-11-01 05:15", "2026-11-01 06:45"},
		{"day of 25 hours", "sun", "00:00", "24:00", newYork, "2026-11-01 12:00", "2026-11-01 04:00", "2026-11-02 05:00"},

		{"berlin, gap", "", "02:30", "06:00", berlin, "2026-03-28 23:00", "2026-03-29 01:00", "2026-03-29 04:00"},
		{"berlin, twice", "", "02:30", "06:00", berlin, "2026-10-24 23:00", "2026-10-25 00:30", "2026-10-25 05:00"},
		{"berlin, ends twice", "", "01:00", "02:30", berlin, "2026-10-24 22:00", "2026-10-24 23:00", "2026-10-25 01:30"},
		{"kathmandu", "sun", "02:00", "08:00", kathmandu, "2026-03-28 21:00", "2026-03-28 20:15", "2026-03-29 02:15"},
		{"kathmandu, day before in UTC", "sun", "02:00", "08:00", kathmandu, "2026-03-29 02:15", "2026-04-04 20:15", "2026-04-05 02:15"},
		{"lord howe, gap of 30 min", "", "02:15", "06:00", lordHowe, "2026-10-03 15:00", "2026-10-03 15:30", "2026-10-03 19:00"},
		{"lord howe, 30 min twice", "", "01:45", "06:00", lordHowe, "2026-04-04 14:00", "2026-04-04 14:45", "2026-04-04 19:30"},
		{"lord howe, ends twice", "", "00:00", "01:45", lordHowe, "2026-04-04 14:00", "2026-04-04 13:00", "2026-04-04 15:15"},
		{"apia, twice", "", "03:30", "05:00", apia, "2020-04-04 13:00", "2020-04-04 13:30", "2020-04-04 16:00"},
		{"apia, gap", "", "03:30", "05:00", apia, "2020-09-26 13:00", "2020-09-26 14:00", "2020-09-26 15:00"},
		{"apia, into the skipped day", "thu", "22:00", "04:00", apia, "2011-12-30 09:00", "2011-12-30 08:00", "2011-12-30 10:00"},
		{"apia, out of the skipped day", "fri", "22:00", "04:00", apia, "2011-12-30 11:00", "2011-12-30 10:00", "2011-12-30 14:00"},
		{"apia, on the skipped day", "fri", "02:00", "08:00", apia, "2011-12-30 15:00", "2011-12-30 10:00", "2011-12-30 16:00"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := mustParse(t, Spec{Days: strings.Fields(c.days), From: c.from, To: c.to, TZ: c.tz})
			at, start, end := utc(c.at), utc(c.start), utc(c.end)
			for _, zone := range []string{"UTC", newYork, apia} { // in whatever zone the time comes
				loc, err := time.LoadLocation(zone)
				if err != nil {
					t.Fatal(err)
				}
				if s, e := w.Span(at.In(loc)); s != start || e != end {
					t.Errorf("span %s to %s, want %s to %s", s, e, start, end)
				}
			}
			if in := !at.Before(start); w.Contains(at) != in {
				t.Errorf("contains: %v", !in)
			}
			for _, edge := range []struct {
				t  time.Time
				in bool
			}{{start.Add(-1), false}, {start, true}, {end.Add(-1), true}, {end, false}} {
				if w.Contains(edge.t) != edge.in {
					t.Errorf("contains %s: %v", edge.t, !edge.in)
				}
			}
		})
	}
}

func TestZoneOfTheProcessDoesNotMatter(t *testing.T) {
	w := mustParse(t, Spec{Days: []string{"sun"}, From: "02:00", To: "08:00"})
	defer func(l *time.Location) { time.Local = l }(time.Local)
	for _, zone := range []string{"America/New_York", "Asia/Kathmandu", "Pacific/Apia"} {
		time.Local, _ = time.LoadLocation(zone)
		if s, e := w.Span(utc("2026-07-18 22:30").Local()); s != utc("2026-07-19 02:00") || e != utc("2026-07-19 08:00") {
			t.Errorf("%s: %s to %s", zone, s, e)
		}
	}
}

var zones = []string{"", "America/New_York", "Europe/Berlin", "Asia/Kathmandu", "Australia/Lord_Howe", "Pacific/Apia", "America/Havana", "America/St_Johns", "Africa/Casablanca", "Antarctica/Troll"}

func drawWindow(t *rapid.T, path string) (Spec, Window) {
	clock := rapid.Custom(func(t *rapid.T) string {
		m := rapid.IntRange(0, 24*60-1).Draw(t, "minute")
		return utc("2026-01-01 00:00").Add(time.Duration(m) * time.Minute).Format("15:04")
	})
	s := Spec{
		Path: path,
		Days: rapid.SliceOfN(rapid.SampledFrom(dayNames), 0, 4).Draw(t, "days"),
		From: clock.Draw(t, "from"),
		To:   rapid.OneOf(clock, rapid.Just("24:00")).Draw(t, "to"),
		TZ:   rapid.SampledFrom(zones).Draw(t, "zone"),
	}
	if s.From == s.To {
		t.Skip("refused")
	}
	w, err := ParseWindow(s)
	if err != nil {
		t.Fatal(err)
	}
	return s, w
}

func drawTime(t *rapid.T) time.Time {
	return time.Unix(rapid.Int64Range(utc("2009-01-01 00:00").Unix(), utc("2040-01-01 00:00").Unix()).Draw(t, "t"), 0).UTC()
}

// showsInside is what a person would say who looks at the clock on the wall.
func (w Window) showsInside(t time.Time) bool {
	l := t.In(w.zone)
	clock := time.Duration(l.Hour())*time.Hour + time.Duration(l.Minute())*time.Minute + time.Duration(l.Second())*time.Second
	return w.days[l.Weekday()] && w.from <= clock && clock < w.to ||
		w.days[(l.Weekday()+6)%7] && clock+day < w.to
}

func TestContainsAgreesWithSpanAndTheWall(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		_, w := drawWindow(t, "primary")
		at := drawTime(t)
		for range 300 {
			start, end := w.Span(at)
			in := w.Contains(at)
			if !start.Before(end) || !at.Before(end) || in != !at.Before(start) {
				t.Fatalf("at %s: %s to %s, in: %v", at, start, end, in)
			}
			shown := w.showsInside(at)
			_, before := at.Add(-50 * time.Hour).In(w.zone).Zone()
			_, after := at.Add(25 * time.Hour).In(w.zone).Zone()
			if shown && !in || shown != in && before == after {
				t.Fatalf("at %s: in: %v, by the wall: %v", at.In(w.zone), in, shown)
			}
			at = at.Add(23 * time.Minute)
		}
	})
}

// Over a year a window lasts as often and as long as it says, but for what the
// two changes of the clock add or take.
func TestYear(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		_, w := drawWindow(t, "primary")
		year := rapid.IntRange(2012, 2037).Draw(t, "year")
		at, stop := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(year, 12, 31, 0, 0, 0, 0, time.UTC)
		var sum, odd time.Duration
		var n int
		for at.Before(stop) {
			start, end := w.Span(at)
			d := end.Sub(start)
			sum, n, at = sum+d, n+1, end
			odd += (d - (w.to - w.from)).Abs()
		}
		weekly := 0
		for _, on := range w.days {
			if on {
				weekly++
			}
		}
		if want := 52 * weekly; n < want-weekly || n > want+weekly+1 {
			t.Fatalf("%d windows, %d a week", n, weekly)
		}
		// Troll changes by 2 h, Casablanca four times a year by 1 h; where a
		// window touches both of its days it may count twice.
		if odd > 8*time.Hour {
			t.Fatalf("%s too long or too short in all", odd)
		}
	})
}

// The same counted, in steps that divide all times, for one window in each zone.
func TestYearCounted(t *testing.T) {
	for _, c := range []struct {
		tz   string
		want time.Duration // beyond 364 nights of 4 h 30 min
	}{
		// From 22:00 to 02:30: the night to March ends in the gap or by it,
		// the one in autumn holds the hour twice.
		{"", 0},
		{"Asia/Kathmandu", 0},
		{"America/New_York", -30*time.Minute + time.Hour},
		{"Europe/Berlin", -30*time.Minute + time.Hour},
		{"Australia/Lord_Howe", -30*time.Minute + 30*time.Minute},
	} {
		w := mustParse(t, Spec{From: "22:00", To: "02:30", TZ: c.tz})
		const step = 30 * time.Minute
		noon := time.Date(2026, 1, 1, 12, 0, 0, 0, w.zone)
		var in time.Duration
		for at := noon; at.Before(time.Date(2026, 12, 31, 12, 0, 0, 0, w.zone)); at = at.Add(step) {
			if w.Contains(at) {
				in += step
			}
		}
		if want := 364*270*time.Minute + c.want; in != want {
			t.Errorf("%q: %s, want %s", c.tz, in, want)
		}
	}
}

func FuzzParseWindow(f *testing.F) {
	f.Add("sun", "02:00", "08:00", "Europe/Berlin")
	f.Add("", "22:00", "24:00", "")
	f.Fuzz(func(t *testing.T, d, from, to, tz string) {
		w, err := ParseWindow(Spec{Path: "p", Days: strings.Fields(d), From: from, To: to, TZ: tz})
		if err != nil {
			return
		}
		at := utc("2026-07-17 00:00")
		if start, end := w.Span(at); !start.Before(end) || !at.Before(end) || w.to <= w.from || w.to >= w.from+2*day {
			t.Fatalf("%+v: %s to %s", w, start, end)
		}
	})
}

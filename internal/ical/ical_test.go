package ical

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// calendar is one of events.
func calendar(events ...string) string {
	text := "BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:-//x//y\n"
	for n, e := range events {
		if !strings.Contains(e, "UID:") {
			e = fmt.Sprintf("UID:%d\n%s", n, e)
		}
		text += "BEGIN:VEVENT\n" + e + "\nEND:VEVENT\n"
	}
	return strings.ReplaceAll(text+"END:VCALENDAR\n", "\n", "\r\n")
}

func inZone(t *testing.T, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

func TestSpans(t *testing.T) {
	for _, c := range []struct {
		name, from, to string
		events         []string
		want           string
	}{
		{"utc", "2026-03-01", "2026-04-01", []string{"DTSTART:20260314T020000Z\nDTEND:20260314T043000Z"}, "03-14T02:00/03-14T04:30"},
		{"duration", "2026-03-01", "2026-04-01", []string{"DTSTART:20260314T020000Z\nDURATION:P1DT2H30M5S"}, "03-14T02:00/03-15T04:30"},
		{"weeks", "2026-03-01", "2026-04-01", []string{"DTSTART:20260314T020000Z\nDURATION:P1W"}, "03-14T02:00/03-21T02:00"},
		{"over midnight, of a zone", "2026-01-01", "2026-02-01", []string{"DTSTART;TZID=America/New_York:20260114T233000\nDTEND;TZID=America/New_York:20260115T013000"}, "01-15T04:30/01-15T06:30"},
		{"zone of a source", "2026-01-01", "2026-02-01", []string{"DTSTART;TZID=\"/example.org/20240101/Europe/Berlin\":20260114T120000\nDURATION:PT1H"}, "01-14T11:00/01-14T12:00"},
		{"local", "2026-01-01", "2026-02-01", []string{"DTSTART:20260114T120000\nDURATION:PT1H"}, "01-14T17:00/01-14T18:00"},
		{"a day, local", "2026-01-01", "2026-02-01", []string{"DTSTART;VALUE=DATE:20260114"}, "01-14T05:00/01-15T05:00"},
		{"days, local, over a change", "2026-03-01", "2026-04-01", []string{"DTSTART;VALUE=DATE:20260307\nDTEND;VALUE=DATE:20260309"}, "03-07T05:00/03-09T04:00"},
		{"weekly, by the wall over a change", "2026-03-01", "2026-03-20", []string{"DTSTART;TZID=America/New_York:20260201T023000\nDURATION:PT1H\nRRULE:FREQ=WEEKLY;BYDAY=SU"},
			// On the 8th half past two is skipped: it is an hour later by the wall.
			"03-01T07:30/03-01T08:30 03-08T07:30/03-08T08:30 03-15T06:30/03-15T07:30"},
		{"shown twice", "2026-10-30", "2026-11-05", []string{"DTSTART;TZID=America/New_York:20261101T013000\nDURATION:PT1H"}, "11-01T05:30/11-01T06:30"},
		{"count", "2026-03-01", "2026-04-01", []string{"DTSTART:20260227T020000Z\nDURATION:PT1H\nRRULE:FREQ=DAILY;COUNT=4"}, "03-01T02:00/03-01T03:00 03-02T02:00/03-02T03:00"},
		{"until, by UTC", "2026-03-01", "2026-04-01", []string{"DTSTART;TZID=America/New_York:20260301T020000\nDURATION:PT1H\nRRULE:FREQ=DAILY;UNTIL=20260302T070000Z"}, "03-01T07:00/03-01T08:00 03-02T07:00/03-02T08:00"},
		{"second Tuesday", "2026-01-01", "2026-03-30", []string{"DTSTART:20260113T020000Z\nDURATION:PT1H\nRRULE:FREQ=MONTHLY;BYDAY=2TU"}, "01-13T02:00/01-13T03:00 02-10T02:00/02-10T03:00 03-10T02:00/03-10T03:00"},
		{"left out", "2026-03-01", "2026-04-01", []string{"DTSTART;TZID=Europe/Berlin:20260301T020000\nDURATION:PT1H\nRRULE:FREQ=DAILY;COUNT=4\nEXDATE;TZID=Europe/Berlin:20260302T020000,20260303T020000\nEXDATE;VALUE=DATE:20260304"}, "03-01T01:00/03-01T02:00"},
		{"more", "2026-03-01", "2026-04-01", []string{"DTSTART:20260301T020000Z\nDURATION:PT1H\nRDATE:20260305T020000Z,20260307T030000Z"}, "03-01T02:00/03-01T03:00 03-05T02:00/03-05T03:00 03-07T03:00/03-07T04:00"},
		{"moved and cancelled instances", "2026-03-01", "2026-04-01", []string{
			"UID:a\nDTSTART:20260301T020000Z\nDURATION:PT1H\nRRULE:FREQ=DAILY;COUNT=3",
			"UID:a\nRECURRENCE-ID:20260302T020000Z\nDTSTART:20260310T050000Z\nDURATION:PT2H",
			"UID:a\nRECURRENCE-ID:20260303T020000Z\nSTATUS:CANCELLED\nDTSTART:20260303T020000Z",
		}, "03-01T02:00/03-01T03:00 03-10T05:00/03-10T07:00"},
		{"cancelled", "2026-03-01", "2026-04-01", []string{"STATUS:CANCELLED\nDTSTART:20260301T020000Z\nDURATION:PT1H\nRRULE:FREQ=DAILY"}, ""},
		{"joined", "2026-03-01", "2026-04-01", []string{"DTSTART:20260301T020000Z\nDURATION:PT1H", "DTSTART:20260301T030000Z\nDURATION:PT1H", "DTSTART:20260301T023000Z\nDURATION:PT5M"}, "03-01T02:00/03-01T04:00"},
		{"folded, with an alarm", "2026-03-01", "2026-04-01", []string{"SUMMARY:main\n tenance\\, twice\nDTSTART:2026030\n 1T020000Z\nBEGIN:VALARM\nTRIGGER:-PT10M\nDURATION:nonsense\nEND:VALARM\nDURATION:PT1H"}, "03-01T02:00/03-01T03:00"},
		{"long ago begun", "2026-03-01", "2026-03-03", []string{"DTSTART:19700101T020000Z\nDURATION:PT1H\nRRULE:FREQ=DAILY"}, "03-01T02:00/03-01T03:00 03-02T02:00/03-02T03:00"},
		{"begun before the span", "2026-03-02", "2026-03-03", []string{"DTSTART:20260227T000000Z\nDURATION:P10D"}, "02-27T00:00/03-09T00:00"},
		{"no length", "2026-03-01", "2026-04-01", []string{"DTSTART:20260301T020000Z"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			cal, err := Parse([]byte(calendar(c.events...)), inZone(t, "America/New_York"))
			if err != nil {
				t.Fatal(err)
			}
			from, _ := time.Parse(time.DateOnly, c.from)
			to, _ := time.Parse(time.DateOnly, c.to)
			spans, err := cal.Spans(from, to)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, s := range spans {
				got = append(got, s.Start.Format("01-02T15:04/")+s.End.Format("01-02T15:04"))
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("got  %s\nwant %s", strings.Join(got, " "), c.want)
			}
		})
	}
}

// What is wrong is named with its line.
func TestFaults(t *testing.T) {
	ok := "DTSTART:20260301T020000Z\nDURATION:PT1H\n"
	for text, want := range map[string]string{
		calendar(ok + "RRULE:FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30"): "line 8: RRULE: no day matches it",
		"":                                 "line 1: want BEGIN:VCALENDAR",
		"<html>\n":                         "line 1: want NAME:value",
		"VERSION:2.0\n":                    "line 1: VERSION: want BEGIN:VCALENDAR before it",
		"BEGIN:VCALENDAR\nBEGIN:VEVENT\n":  "line 2: it ends inside of VEVENT",
		"BEGIN:VCALENDAR\nEND:VEVENT\n":    "line 2: END: VEVENT did not begin",
		"BEGIN:VCALENDAR\nA;B=c\n":         "line 2: want NAME:value",
		calendar("DTEND:20260301T020000Z"): "line 4: event: it has no DTSTART",
		calendar("DTSTART:2026-03-01"):     `line 6: DTSTART: "2026-03-01" is no time`,
		calendar("DTSTART;TZID=Local:20260301T020000"):                                     `unknown time zone "Local"`,
		calendar("DTSTART;TZID=W. Europe Standard Time:20260301T020000"):                   "line 6: DTSTART: unknown time zone",
		calendar("DTSTART:20260301T020000Z\nDURATION:2H"):                                  `line 7: DURATION: "2H" is no duration`,
		calendar("DTSTART:20260301T020000Z\nDTEND:20260228T020000Z"):                       "line 4: event: it takes -24h0m0s: want up to 366 days",
		calendar("DTSTART:20260301T020000Z\nDURATION:P999D"):                               "want up to 366 days",
		calendar(ok + "RRULE:FREQ=SECONDLY"):                                               "line 8: RRULE: it comes back more than daily",
		calendar(ok + "RRULE:FREQ=DAILY;INTERVAL=0"):                                       "line 8: RRULE: INTERVAL=0: want 1 to 1000",
		calendar(ok + "RRULE:FREQ=DAILY;BYHOUR=0,1,2,3,4,5;BYMINUTE=1,2,3,4,5"):            "more than 24 times a day",
		calendar(ok + "RRULE:FREQ=SOMETIMES"):                                              "line 8: RRULE",
		calendar(ok + "RRULE:FREQ=DAILY;BYHOUR=25"):                                        "line 8: RRULE",
		calendar(ok + "EXRULE:FREQ=DAILY"):                                                 "line 8: EXRULE: is not read",
		calendar(ok + "RDATE;VALUE=PERIOD:20260301T020000Z/PT1H"):                          "line 8: RDATE: periods",
		calendar(ok + "RECURRENCE-ID;RANGE=THISANDFUTURE:20260301T020000Z"):                "line 8: RECURRENCE-ID: RANGE",
		calendar("DTSTART:16010101T020000Z\nDURATION:PT1H\nRRULE:FREQ=DAILY"):              "line 4: event: it repeats from 1601 on",
		calendar(strings.Split(strings.Repeat(ok+"RRULE:FREQ=DAILY|", 201), "|")[:201]...): "more than 200 events that repeat",
	} {
		if _, err := Parse([]byte(text), time.UTC); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80q: got %v, want %s", text, err, want)
		}
	}
}

// However a file is written, counting its times comes to an end.
func TestBounded(t *testing.T) {
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	start := time.Now()
	rare := strings.Repeat("DTSTART:19700101T000000Z\nDURATION:PT1H\nRRULE:FREQ=DAILY;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO|", mostRules)
	c, err := Parse([]byte(calendar(strings.Split(rare, "|")[:mostRules]...)), time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = c.Spans(from, from.Add(ahead)); err != nil {
		t.Error(err)
	}
	t.Logf("%d rules that match a day in 28 years: %v", mostRules, time.Since(start))
	start = time.Now()
	c, err = Parse([]byte(calendar(strings.Split(strings.Repeat("DTSTART:19700101T000000Z\nDURATION:PT1H\nRRULE:FREQ=DAILY;BYHOUR=0,1,2,3,4,5;BYMINUTE=0,1,2,3|", 100), "|")[:100]...)), time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = c.Spans(from, from.Add(ahead)); err == nil || !strings.Contains(err.Error(), "make more than 1000000 times") {
		t.Error(err)
	}
	t.Logf("1000000 times: %v", time.Since(start))
}

func TestSpanOfNone(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	if start, end := (Spans{}).Span(now); !start.After(now.AddDate(50, 0, 0)) || end.Before(start) {
		t.Errorf("%v to %v", start, end)
	}
	s := Spans{{now, now.Add(time.Hour)}, {now.Add(2 * time.Hour), now.Add(3 * time.Hour)}}
	for after, want := range map[time.Duration]int{-time.Hour: 0, 0: 0, 59 * time.Minute: 0, time.Hour: 1, 2*time.Hour + time.Minute: 1} {
		if start, _ := s.Span(now.Add(after)); !start.Equal(s[want].Start) {
			t.Errorf("after %v: %v", after, start)
		}
	}
}

// A file is read again when it changed, and what was known stays when it is damaged.
func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "provider.ics")
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	age := now
	write := func(text string) {
		t.Helper()
		age = age.Add(time.Second)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, age, age); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Open(path, time.UTC, now); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v", err)
	}
	write(calendar("DTSTART:20260301T020000Z\nDURATION:PT1H\nRRULE:FREQ=DAILY"))
	f, err := Open(path, time.UTC, now)
	if err != nil {
		t.Fatal(err)
	}
	is := func(at time.Time, want string) {
		t.Helper()
		if start, _ := f.Span(at); start.Format(time.DateTime) != want {
			t.Errorf("after %v comes %v, want %s", at, start, want)
		}
	}
	is(now, "2026-03-01 02:00:00")
	if changed, err := f.Renew(now.Add(time.Minute)); changed || err != nil {
		t.Errorf("changed %v, %v", changed, err)
	}
	for _, damage := range []string{"BEGIN:VCALENDAR\n", strings.Repeat("x", Largest+1)} {
		write(damage)
		if changed, err := f.Renew(now.Add(time.Minute)); changed || err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("changed %v, %v", changed, err)
		}
		is(now, "2026-03-01 02:00:00")
	}
	write(calendar("DTSTART:20260301T040000Z\nDURATION:PT1H\nRRULE:FREQ=DAILY"))
	if changed, err := f.Renew(now.Add(2 * time.Minute)); !changed || err != nil {
		t.Errorf("changed %v, %v", changed, err)
	}
	is(now, "2026-03-01 04:00:00")
	// What comes back is known for years, as time goes on.
	later := now.AddDate(3, 0, 0)
	if _, err := f.Renew(later); err != nil {
		t.Error(err)
	}
	is(later, "2029-03-01 04:00:00")
	f.reading.Lock() // by somebody whose file system hangs
	if changed, err := f.Renew(later); changed || err == nil || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("changed %v, %v", changed, err)
	}
	is(later, "2029-03-01 04:00:00")
	f.reading.Unlock()
	if _, err := Open(t.TempDir(), time.UTC, now); err == nil {
		t.Error("a directory is a calendar")
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(calendar("DTSTART;TZID=America/New_York:20260201T023000\nDTEND;TZID=America/New_York:20260201T043000\nRRULE:FREQ=WEEKLY;BYDAY=SU;UNTIL=20270101T000000Z\nEXDATE;TZID=America/New_York:20260308T023000")))
	f.Add([]byte(calendar("UID:a\nDTSTART;VALUE=DATE:20260301\nRRULE:FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO;BYSETPOS=-1;WKST=SU", "UID:a\nRECURRENCE-ID:20260302\nDTSTART:20260310T050000Z\nDURATION:P1DT2H")))
	f.Add([]byte(calendar("DTSTART:20260301T020000Z\nDURATION:PT1H\nRRULE:FREQ=MONTHLY;INTERVAL=3;BYMONTHDAY=-1;BYHOUR=1,2;COUNT=9\nRDATE:20260401T000000Z")))
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse(data, time.UTC)
		if err != nil {
			return
		}
		spans, err := c.Spans(from, from.Add(ahead))
		if err != nil {
			return
		}
		for i, s := range spans {
			if !s.Start.Before(s.End) || i > 0 && !spans[i-1].End.Before(s.Start) {
				t.Errorf("%d: %v", i, spans)
			}
		}
	})
}

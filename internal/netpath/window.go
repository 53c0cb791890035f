package netpath

import (
	"fmt"
	"slices"
	"time"
	_ "time/tzdata" // hosts without a zone database have the same windows
)

// Spec is a maintenance window as it is configured.
type Spec struct {
	Path     string   // name of the path it is for
	Days     []string // mon to sun, the days it begins on; none: every day
	From, To string   // HH:MM by the clock on the wall; To may be 24:00, or lie past midnight
	TZ       string   // IANA name; empty: UTC
	Closed   bool     // no request starts on the path inside it
}

// Window is a maintenance window that comes back every week or oftener. It is
// half-open: it holds its first moment and not its last. The zone of the
// process has no part in it.
//
// Where clocks are set, a time that the wall skips stands for the moment the
// skipping ends; a time it shows twice is the first one as a beginning and the
// second one as an end. A window all of which is skipped begins when the
// skipping ends and lasts as long as it always does.
type Window struct {
	path     string
	closed   bool          // nothing starts inside
	days     [7]bool       // by time.Weekday, the one it begins on
	from, to time.Duration // since the midnight before; to > from, past 24 h on the next day
	zone     *time.Location
}

var dayNames = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

// ParseWindow checks s. Errors begin with the member at fault and say what
// would be right.
func ParseWindow(s Spec) (Window, error) {
	w := Window{path: s.Path, closed: s.Closed}
	if s.Path == "" {
		return Window{}, fmt.Errorf(`path: missing, write the name of a path, as "primary"`)
	}
	for _, name := range s.Days {
		i := slices.Index(dayNames, name)
		if i < 0 {
			return Window{}, fmt.Errorf("days: %q is not a day, write mon, tue, wed, thu, fri, sat or sun", name)
		}
		w.days[i] = true
	}
	if len(s.Days) == 0 {
		w.days = [7]bool{true, true, true, true, true, true, true}
	}
	var err error
	if w.from, err = parseClock(s.From); err != nil {
		return Window{}, fmt.Errorf("from: %w", err)
	}
	if w.from == day {
		return Window{}, fmt.Errorf(`from: "24:00" can only be an end, write "00:00" and the day after`)
	}
	if w.to, err = parseClock(s.To); err != nil {
		return Window{}, fmt.Errorf("to: %w", err)
	}
	if w.to == w.from {
		return Window{}, fmt.Errorf(`to: the same as from, for a whole day write from "00:00" to "24:00"`)
	}
	if w.to < w.from {
		w.to += day
	}
	w.zone, err = time.LoadLocation(s.TZ)
	if err != nil || s.TZ == "Local" { // which would be the zone of the process
		return Window{}, fmt.Errorf(`tz: unknown zone %q, write a name of the IANA database, as "America/New_York"`, s.TZ)
	}
	return w, nil
}

const day = 24 * time.Hour

// parseClock reads HH:MM and nothing else. Without quotes YAML may read 02:00 as
// the number 120, and one that is guessed right on most days is wrong on some.
func parseClock(s string) (time.Duration, error) {
	if s == "24:00" {
		return day, nil
	}
	t, err := time.Parse("15:04", s)
	if err != nil || len(s) != len("15:04") {
		return 0, fmt.Errorf(`%q is not a time of day from "00:00" to "23:59", write it in quotes, as "02:00"`, s)
	}
	return time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute, nil
}

// Contains reports whether t lies in the window.
func (w Window) Contains(t time.Time) bool {
	start, end := w.Span(t)
	return !t.Before(start) && t.Before(end)
}

// Length is how long it lasts where no clock is set inside.
func (w Window) Length() time.Duration { return w.to - w.from }

// Span returns the beginning and the end of the window t lies in, or else of
// the next one after t.
func (w Window) Span(t time.Time) (start, end time.Time) {
	y, m, d := t.In(w.zone).Date()
	// It may have begun yesterday, or the day before if the wall skips one.
	for i := -2; i <= 8; i++ {
		date := time.Date(y, m, d+i, 0, 0, 0, 0, time.UTC)
		if !w.days[date.Weekday()] {
			continue
		}
		if start, end = w.on(date); t.Before(end) {
			break
		}
	}
	return start, end
}

// on returns the window that begins on a date.
func (w Window) on(date time.Time) (start, end time.Time) {
	start, _ = moments(date.Add(w.from), w.zone)
	_, end = moments(date.Add(w.to), w.zone)
	if !start.Before(end) {
		end = start.Add(w.to - w.from)
	}
	return start, end
}

// moments returns the first moment at which the wall in zone shows the time
// wall or a later one, and the last moment before which it shows an earlier one.
// They differ for a time that is shown twice, and are the same for one that is
// skipped. wall is written as if it were UTC.
func moments(wall time.Time, zone *time.Location) (first, last time.Time) {
	const reach = 26 * time.Hour // further than any wall is away from UTC
	found := false
	for at := wall.Add(-reach); at.Before(wall.Add(reach)); {
		_, offset := at.In(zone).Zone()
		_, end := at.In(zone).ZoneBounds()
		if end.IsZero() || end.After(wall.Add(reach)) {
			end = wall.Add(reach)
		}
		shown := wall.Add(-time.Duration(offset) * time.Second) // if this offset held for good
		if !found && shown.Before(end) {
			first, found = later(at, shown), true
		}
		if at.Before(shown) {
			last = earlier(end, shown)
		}
		at = end
	}
	return first.UTC(), last.UTC()
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

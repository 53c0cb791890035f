package main

import (
	"fmt"
	"regexp"
	"runtime/debug"
	"strings"
	"time"
	_ "time/tzdata" // a node without a zone database keeps its windows
)

var clock = regexp.MustCompile(`^([01][0-9]|2[0-3]):[0-5][0-9]$`)

// windowEnd returns the next time the clock shows what s says: HH:MM and a time
// zone, UTC when it names none.
func windowEnd(s string, now time.Time) (time.Time, error) {
	hhmm, zone, _ := strings.Cut(strings.TrimSpace(s), " ")
	if !clock.MatchString(hhmm) {
		return time.Time{}, fmt.Errorf("%q is no time of day: write HH:MM and a time zone, such as 05:30 America/New_York", s)
	}
	loc, err := time.LoadLocation(strings.TrimSpace(zone)) // "" is UTC
	if err != nil || zone == "Local" {
		return time.Time{}, fmt.Errorf("%q: unknown time zone %q: write it as in America/New_York, or leave it out for UTC", s, zone)
	}
	var hour, minute int
	if _, err := fmt.Sscanf(hhmm, "%d:%d", &hour, &minute); err != nil {
		return time.Time{}, err
	}
	local := now.In(loc)
	for day := 0; ; day++ {
		// A time that a change of clocks leaves out is read as an hour earlier.
		if end := time.Date(local.Year(), local.Month(), local.Day()+day, hour, minute, 0, 0, loc); end.After(now) {
			return end, nil
		}
	}
}

// deadline is when the run has to be over; zero: never.
func (c Config) deadline(now time.Time) (time.Time, error) {
	var at time.Time
	if c.Upload.Deadline > 0 {
		at = now.Add(c.Upload.Deadline)
	}
	if c.Upload.WindowEnd == "" {
		return at, nil
	}
	end, err := windowEnd(string(c.Upload.WindowEnd), now)
	if err != nil {
		return at, usageError("", "upload.window_end: %w", err)
	}
	if at.IsZero() || end.Before(at) {
		// The monotonic clock measures what is left: a step of the other one must not.
		at = now.Add(end.Sub(now.Round(0)))
	}
	return at, nil
}

// outlasts returns an error when the wait before a run may outlast its deadline.
func (c Config) outlasts(deadline, now time.Time) error {
	if deadline.IsZero() || now.Add(c.Upload.Splay).Before(deadline) {
		return nil
	}
	return usageError("", "--splay %s may outlast the deadline, which is in %s", c.Upload.Splay, deadline.Sub(now).Round(time.Second))
}

// lately is how far back the end of a window lies that somebody meant who comes
// late for it.
const lately = 2 * time.Hour

// timeWarnings tells of a clock, and of an end of the window, that are probably not
// what was meant.
func (c Config) timeWarnings(now time.Time) (warnings []string) {
	if made := madeAt(); now.Before(made) {
		warnings = append(warnings, fmt.Sprintf("the clock shows %s, which is before this program was made (%s): maintenance windows and times of day are wrong until it is set",
			now.UTC().Format(time.RFC3339), made.UTC().Format(time.RFC3339)))
	}
	last, err := windowEnd(string(c.Upload.WindowEnd), now.Add(-lately))
	if err != nil || last.After(now) {
		return warnings
	}
	end, err := c.deadline(now)
	if next, _ := windowEnd(string(c.Upload.WindowEnd), now); err == nil && end.Equal(next) {
		warnings = append(warnings, fmt.Sprintf("--window-end %s was %s ago: this run ends at %s at the latest",
			c.Upload.WindowEnd, now.Sub(last).Round(time.Second), end.UTC().Format("2006-01-02T15:04Z")))
	}
	return warnings
}

// made is when the program was made, RFC 3339; the linker may set it.
var made string

// madeAt is when the program was made, or the commit it was made of; zero: unknown.
func madeAt() time.Time {
	when := made
	if info, ok := debug.ReadBuildInfo(); ok && when == "" {
		for _, s := range info.Settings {
			if s.Key == "vcs.time" {
				when = s.Value
			}
		}
	}
	t, _ := time.Parse(time.RFC3339, when) // what says nothing is the zero time
	return t
}

// reserve is kept of the time to the deadline for winding down; nearEnd is when
// new records begin to go before those that failed.
func winding(left, requestTimeout time.Duration) (reserve, nearEnd time.Duration) {
	return min(2*time.Second, left/20), min(6*requestTimeout, left/4)
}

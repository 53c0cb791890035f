package main

import (
	"context"
	"fmt"
	"time"

	"trafficup/internal/config"
	"trafficup/internal/failover"
	"trafficup/internal/ical"
)

// calendarFile is a file that says when an uplink is in maintenance.
type calendarFile struct {
	key    string // in the configuration
	path   string
	zone   *time.Location
	uplink int
	hold   bool
	file   *ical.File // nil: not open yet
	fault  error      // of opening it
}

// addCalendar notes a file for the uplink that is added next.
func (s *failoverSetup) addCalendar(w config.UplinkWindow, at string, fault func(key, format string, a ...any)) {
	zone, err := time.LoadLocation(w.TZ)
	switch {
	case len(w.Days) > 0 || w.From != "" || w.To != "":
		fault(at+".ical", "%q says when it is: leave out days, from and to, or write them as a window of their own", w.ICal)
	case err != nil || zone == time.Local:
		fault(at+".tz", `unknown zone %q, write a name of the IANA database, as "America/New_York"`, w.TZ)
	default:
		s.files = append(s.files, calendarFile{at + ".ical", w.ICal, zone, len(s.decide.Uplinks), w.Hold, nil, nil})
	}
}

// open reads the files, for decisions from then on. One that cannot be read names no
// times until it can.
func (s *failoverSetup) open(from time.Time) {
	for i := range s.files {
		f := &s.files[i]
		f.file, f.fault = ical.Open(f.path, f.zone, from)
		windows := &s.decide.Uplinks[f.uplink].Windows
		*windows = append(*windows, failover.Planned{Window: f.file, Hold: f.hold})
	}
}

// lookAtCalendars is how often it is looked whether a file changed.
const lookAtCalendars = time.Minute

// followCalendars reads files again as they change, until ctx ends. What is known of
// one that was damaged stays.
func (l *failoverLoop) followCalendars(ctx context.Context) {
	files := l.setup.files
	if len(files) == 0 {
		return
	}
	told := make([]trouble, len(files))
	tick := time.NewTicker(lookAtCalendars)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for i, f := range files {
			if ctx.Err() != nil {
				return
			}
			changed, err := f.file.Renew(l.now().Wall)
			if changed {
				l.sys.note(fmt.Sprintf("%s: %s was read again", f.key, f.path))
			}
			if err != nil {
				err = fmt.Errorf("%s: %w; what was known before holds", f.key, err)
			}
			l.sys.warnOnce(&told[i], err)
		}
	}
}

// unread is what is wrong with files that cannot be read.
func (s failoverSetup) unread() (all []string) {
	for _, f := range s.files {
		if f.fault != nil {
			all = append(all, fmt.Sprintf("%s: %v", f.key, f.fault))
		}
	}
	return all
}

// unreadWarnings are about those: no reason not to begin.
func (s failoverSetup) unreadWarnings() (all []string) {
	for _, text := range s.unread() {
		all = append(all, text+"; mend the file: until it can be read, it counts as one without events")
	}
	return all
}

// warnOfCalendars opens the files of the configuration, and warns of those that cannot
// be read here.
func (c Config) warnOfCalendars() {
	s := c.failoverSetup(func(string, string, ...any) {}) // told when it was read
	s.open(time.Now())
	for _, f := range s.files {
		if f.fault != nil {
			c.Warn(f.key, "%v", f.fault)
		}
	}
}

package ical

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Calendar is the events of a file.
type Calendar struct {
	events []event
	// moved are instances of repeated events that another event stands for, by UID.
	moved map[string][]moment
}

// event is one, or a series.
type event struct {
	line   int
	uid    string
	start  moment
	length length
	end    *moment // gives length
	rule   *rule
	more   []moment // besides the rule
	except []moment
	of     *moment // the instance of a series that it stands for
	gone   bool    // it is cancelled
}

// longest is how long an event may take.
const longest = 366 * 24 * time.Hour

var errLocal = errors.New("zone of a process")

// parser is a calendar that is being read.
type parser struct {
	Calendar
	local  *time.Location
	inside []string // components
	event  event
}

// Parse reads a calendar. local is the zone of times that name none.
func Parse(data []byte, local *time.Location) (c Calendar, err error) {
	all, err := lines(data)
	if err != nil {
		return c, err
	}
	p := parser{Calendar: Calendar{moved: map[string][]moment{}}, local: local}
	for _, l := range all {
		if err := p.take(l); err != nil {
			return c, err
		}
	}
	switch {
	case len(all) == 0:
		return c, errors.New("line 1: want BEGIN:VCALENDAR")
	case len(p.inside) > 0:
		return c, fmt.Errorf("line %d: it ends inside of %s", all[len(all)-1].number, p.inside[len(p.inside)-1])
	}
	return p.Calendar, p.check()
}

// take reads a line.
func (p *parser) take(l line) (err error) {
	switch within := strings.Join(p.inside, " "); {
	case l.name == "BEGIN":
		p.inside = append(p.inside, strings.ToUpper(l.value))
		if len(p.inside) > 8 || p.inside[0] != "VCALENDAR" {
			return l.fault("%s has no place here: a calendar begins with VCALENDAR, and its parts are 8 deep at most", l.value)
		}
		if len(p.inside) == 2 {
			p.event = event{line: l.number}
		}
	case l.name == "END":
		if len(p.inside) == 0 || p.inside[len(p.inside)-1] != strings.ToUpper(l.value) {
			return l.fault("%s did not begin", l.value)
		}
		if within == "VCALENDAR VEVENT" {
			err = p.add(p.event)
		}
		p.inside = p.inside[:len(p.inside)-1]
	case within == "":
		return l.fault("want BEGIN:VCALENDAR before it")
	case within == "VCALENDAR VEVENT":
		err = p.event.set(l, p.local)
	}
	return err
}

// set reads a property.
func (e *event) set(l line, local *time.Location) (err error) {
	switch l.name {
	case "UID":
		e.uid = l.value
	case "STATUS":
		e.gone = strings.EqualFold(l.value, "CANCELLED")
	case "DTSTART":
		e.start, err = l.moment(l.value, local)
	case "DTEND":
		var m moment
		m, err = l.moment(l.value, local)
		e.end = &m
	case "DURATION":
		e.length, err = l.length()
	case "RRULE":
		if e.rule != nil {
			return l.fault("a second one: want one")
		}
		e.rule, err = l.rule()
	case "EXRULE":
		return l.fault("is not read: want EXDATE")
	case "RDATE", "EXDATE":
		var some []moment
		some, err = l.moments(local)
		if l.name == "RDATE" {
			e.more = append(e.more, some...)
		} else {
			e.except = append(e.except, some...)
		}
	case "RECURRENCE-ID":
		if l.params["RANGE"] != "" {
			return l.fault("RANGE is not read: want each instance by itself")
		}
		var m moment
		m, err = l.moment(l.value, local)
		e.of = &m
	}
	return err
}

// add adds an event, which has to have a beginning.
func (c *Calendar) add(e event) error {
	fault := func(format string, a ...any) error {
		return fmt.Errorf("line %d: event: %w", e.line, fmt.Errorf(format, a...))
	}
	switch {
	case e.of != nil:
		c.moved[e.uid] = append(c.moved[e.uid], *e.of)
		e.rule, e.more = nil, nil
	case e.rule != nil && !e.start.wall.IsZero() && (e.start.wall.Year() < 1970 || e.start.wall.Year() > 2199):
		return fault("it repeats from %d on: want 1970 to 2199", e.start.wall.Year())
	}
	if e.gone {
		return nil
	}
	if e.start.wall.IsZero() {
		return fault("it has no DTSTART")
	}
	if e.rule != nil && !e.rule.ever(e.start) {
		return e.rule.line.fault("no day matches it")
	}
	switch {
	case e.end != nil && e.start.date && e.end.date:
		e.length = length{days: int(e.end.wall.Sub(e.start.wall) / (24 * time.Hour))}
	case e.end != nil:
		e.length = length{time: e.end.at().Sub(e.start.at())}
	case e.length == length{} && e.start.date:
		e.length.days = 1
	}
	if took := time.Duration(e.length.days)*24*time.Hour + e.length.time; took < 0 || took > longest {
		return fault("it takes %v: want up to 366 days", took)
	}
	c.events = append(c.events, e)
	return nil
}

// until is when an instance that starts then ends.
func (e event) until(start moment) time.Time {
	start.wall = start.wall.AddDate(0, 0, e.length.days)
	return start.at().Add(e.length.time)
}

// without reports that an instance is left out.
func without(start moment, except []moment) bool {
	return slices.ContainsFunc(except, func(m moment) bool {
		if m.date && !start.date { // many write days for times
			return m.wall.Equal(start.wall.Truncate(24 * time.Hour))
		}
		return m.at().Equal(start.at())
	})
}

package ical

import (
	"fmt"
	"strings"
	"time"

	"github.com/teambition/rrule-go"
)

// rule is when an event comes back.
type rule struct {
	line   line
	option rrule.ROption
	// utc: Until is a moment, and not what the wall shows.
	utc bool
}

// What a file may ask for. A rule is counted from its beginning, which may be long
// ago, and who writes files is not trusted with this machine's time.
const (
	mostRules = 200
	mostTimes = 24        // a day, of a rule
	mostSteps = 1_000_000 // of all rules
)

// rule reads an RRULE.
func (l line) rule() (*rule, error) {
	if strings.ContainsAny(l.value, "\r\n") || strings.Contains(strings.ToUpper(l.value), "DTSTART") {
		return nil, l.fault("%q is no rule", l.value)
	}
	o, err := rrule.StrToROption(strings.ToUpper(l.value))
	if err != nil {
		return nil, l.fault("%w", err)
	}
	r := &rule{line: l, option: *o, utc: strings.HasSuffix(until(l.value), "Z")}
	at := func(some []int) int { return max(len(some), 1) }
	switch {
	case o.Freq > rrule.DAILY:
		return nil, l.fault("it comes back more than daily: want DAILY, WEEKLY, MONTHLY or YEARLY")
	case at(o.Byhour)*at(o.Byminute)*at(o.Bysecond) > mostTimes:
		return nil, l.fault("more than %d times a day", mostTimes)
	case strings.Contains(strings.ToUpper(l.value), "INTERVAL=") && (o.Interval < 1 || o.Interval > 1000):
		return nil, l.fault("INTERVAL=%d: want 1 to 1000", o.Interval)
	case o.Count < 0:
		return nil, l.fault("COUNT=%d: want 1 or more", o.Count)
	}
	if _, err := rrule.NewRRule(*o); err != nil {
		return nil, l.fault("%w", err)
	}
	return r, nil
}

// until is the value of UNTIL.
func until(value string) string {
	_, rest, _ := strings.Cut(strings.ToUpper(value), "UNTIL=")
	text, _, _ := strings.Cut(rest, ";")
	return text
}

// starts are the instances of the rule up to a moment. They are counted by the wall,
// so that what begins at two does so in summer and in winter.
func (r *rule) starts(start moment, from, to time.Time, steps *int) (all []moment, err error) {
	o := r.option
	o.Dtstart = start.wall
	if r.utc {
		o.Until = wallOf(o.Until, start.zone)
	}
	if end := wallOf(to, start.zone); o.Until.IsZero() || o.Until.After(end) {
		o.Until = end
	}
	if o.Until.Before(o.Dtstart) {
		return nil, nil
	}
	rr, err := rrule.NewRRule(o)
	if err != nil {
		return nil, r.line.fault("%w", err)
	}
	next := rr.Iterator()
	for {
		wall, ok := next()
		if !ok {
			return all, nil
		}
		if *steps++; *steps > mostSteps {
			return nil, fmt.Errorf("line %d: the rules up to here make more than %d times", r.line.number, mostSteps)
		}
		if m := (moment{wall, start.zone, start.date}); !wall.Before(wallOf(from, start.zone)) {
			all = append(all, m)
		}
	}
}

// ever reports that a day matches the rule. One that none matches would be looked for
// in all the years that there are, each time.
func (r *rule) ever(start moment) bool {
	o := r.option
	o.Dtstart, o.Until = start.wall, time.Time{}
	rr, err := rrule.NewRRule(o)
	if err != nil {
		return false
	}
	_, ok := rr.Iterator()()
	return ok
}

// check refuses what would take too long to count.
func (c Calendar) check() error {
	rules := 0
	for _, e := range c.events {
		if e.rule == nil {
			continue
		}
		if rules++; rules > mostRules {
			return fmt.Errorf("line %d: more than %d events that repeat", e.line, mostRules)
		}
	}
	return nil
}

package failover

import (
	"fmt"
	"time"
)

// LongestHold is for how long an uplink is not left for a window. What takes longer is
// no reason to stay on one that is dead.
const LongestHold = time.Hour

// standing is how an uplink stands to its windows.
type standing struct {
	start, end time.Time // of the one that it is to be left for
	leave      bool      // it is to be left, or not to be gone to
	held       time.Time // it is not to be left until then; zero: it may
	soon       bool      // it is to be left within a minute or so
	expected   bool      // its failures are: it is being worked on, or was until not long ago
}

// standing of an uplink now.
func (d *decider) standing(i int) (s standing) {
	t, lead := d.now.Wall, d.Rules.Lead
	for _, p := range d.Uplinks[i].Windows {
		if _, end := p.Window.Span(t.Add(-d.Rules.Grace)); !t.Before(end) {
			s.expected = true
		}
		start, end := p.Window.Span(t)
		switch inside := !t.Before(start); {
		case p.Hold && inside:
			s.expected = true
			if last := start.Add(LongestHold); last.Before(end) {
				end = last
			}
			if end.After(t) && end.After(s.held) {
				s.held = end
			}
		case p.Hold:
		case !t.Before(start.Add(-lead)):
			s.leave, s.expected = true, true
			if end.After(s.end) {
				s.start, s.end = start, end
			}
		case !t.Before(start.Add(-lead - d.Rules.Fresh)):
			s.soon = true
		}
	}
	return s
}

// stay tells once that the active uplink is not left though another one is better.
func (d *decider) stay(until time.Time) {
	name, h := d.Uplinks[d.s.Active].Name, d.s.Health[d.s.Active]
	if h.Verdict == Up || until.Equal(d.s.Held) {
		return
	}
	d.s.Held = until
	d.tell(Event{What: EventHeld, Uplink: name, Verdict: h.Verdict, Expected: true,
		Why: fmt.Sprintf("%s stays for its maintenance until %s, though it is %s", name, until.Format(time.RFC3339), h.Verdict)})
}

// Usable reports that an uplink's windows leave a time for it, and that long enough to be
// gone to; from is when that is looked for, for a week and a day.
func (c Config) Usable(uplink int, from time.Time) bool {
	d := decider{Config: c, now: Now{Wall: from}}
	for d.now.Wall.Before(from.AddDate(0, 0, 8)) {
		switch s := d.standing(uplink); {
		case s.leave:
			d.now.Wall = s.end
		case s.soon:
			d.now.Wall = d.now.Wall.Add(d.Rules.Fresh)
		default:
			return true
		}
	}
	return false
}

// InWindow reports that an uplink is in maintenance.
func (c Config) InWindow(uplink int, t time.Time) bool {
	for _, p := range c.Uplinks[uplink].Windows {
		if start, end := p.Window.Span(t); !t.Before(start) && t.Before(end) {
			return true
		}
	}
	return false
}

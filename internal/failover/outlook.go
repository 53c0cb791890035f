package failover

import (
	"fmt"
	"time"
)

// Outlook says what would have to happen for an uplink to become active, and when
// at the earliest.
type Outlook struct {
	Uplink   string  `json:"uplink"`
	Needs    string  `json:"needs"`               // "": it is active
	Earliest Seconds `json:"earliest_s,omitzero"` // from now, if all goes well; 0: nobody can say
}

// Outlook of all uplinks.
func (c Config) Outlook(s State, now Now) []Outlook {
	d := &decider{c, s, now, nil}
	all := make([]Outlook, len(c.Uplinks))
	for i, u := range c.Uplinks {
		all[i] = d.outlook(i)
		all[i].Uplink = u.Name
	}
	return all
}

func (d *decider) outlook(i int) Outlook {
	h, r := d.s.Health[i], d.Rules
	if i == d.s.Active {
		return Outlook{}
	}
	if f := d.s.Forced; f.Until > 0 && f.Uplink == d.s.Active {
		return Outlook{Needs: fmt.Sprintf("the end of the choice of %s (%s), or: trafficup failover switch auto", d.Uplinks[f.Uplink].Name, f.Why), Earliest: Seconds(f.Until - d.now.Boot)}
	}
	if w := d.standing(i); w.leave {
		return Outlook{Needs: "the end of its maintenance, " + w.end.Format(time.RFC3339), Earliest: Seconds(w.end.Sub(d.now.Wall))}
	}
	dwell := d.dwell(i)
	var held time.Time
	if d.s.Active >= 0 {
		held = d.standing(d.s.Active).held
		dwell = max(dwell, held.Sub(d.now.Wall))
	}
	switch preferred := i < d.s.Active || d.s.Active < 0; {
	case h.Gone != "":
		return Outlook{Needs: "a link again (" + h.Gone + "), and then " + d.rising(Health{})}
	case preferred && h.Verdict != Up && h.Good == 0:
		return Outlook{Needs: "an answer, and then " + d.rising(h)}
	case preferred && h.Verdict != Up:
		return Outlook{Needs: d.rising(h), Earliest: Seconds(max(dwell, r.UpFor-(d.now.Boot-h.GoodSince), time.Duration(r.Up-h.Good)*r.Interval))}
	case !held.IsZero():
		return d.afterHold(held, preferred)
	case preferred:
		return Outlook{Needs: fmt.Sprintf("%v more on %s, of %v (level %d of damping)", dwell.Round(time.Second), d.activeName(), r.dwell(d.s.Level), d.s.Level), Earliest: Seconds(dwell)}
	case h.Verdict == Down:
		return Outlook{Needs: fmt.Sprintf("%d good rounds in a row, and what is preferred being down", r.Rescue)}
	}
	return Outlook{Needs: "what is preferred being down or degraded"}
}

// afterHold is for one that waits for the active one, which is not left until then.
func (d *decider) afterHold(until time.Time, preferred bool) Outlook {
	needs := fmt.Sprintf("the end of %s's maintenance, %s", d.activeName(), until.Format(time.RFC3339))
	if !preferred && d.s.Health[d.s.Active].Verdict == Up {
		return Outlook{Needs: needs + ", and it being down or degraded then"}
	}
	return Outlook{Needs: needs, Earliest: Seconds(until.Sub(d.now.Wall))}
}

func (d *decider) rising(h Health) string {
	r := d.Rules
	return fmt.Sprintf("%d good rounds in a row for %v (%d so far)", r.Up, r.UpFor, h.Good)
}

func (d *decider) activeName() string {
	if d.s.Active < 0 {
		return "none"
	}
	return d.Uplinks[d.s.Active].Name
}

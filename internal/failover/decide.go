package failover

import (
	"fmt"
	"slices"
	"time"
)

// What happened.
const (
	EventSwitch  = "switch"   // another uplink is active
	EventVerdict = "verdict"  // an uplink's verdict changed
	EventAllDown = "all-down" // none can be used: the active one stays
	EventSome    = "some-up"  // one can again
	EventForced  = "forced"   // a person's choice ended
	EventHeld    = "held"     // the active one is not left for its maintenance, though it would be
)

// Event is something that happened.
type Event struct {
	What     string  `json:"event"`
	Uplink   string  `json:"uplink,omitempty"` // of a switch: the new one
	From     string  `json:"from,omitempty"`   // of a switch: the old one
	Verdict  Verdict `json:"verdict"`
	Why      string  `json:"why"`
	Expected bool    `json:"expected,omitempty"` // it is in a window of the uplink that was left
	// After is how long after the first sign of it a switch from an uplink that is down
	// came; 0: of others.
	After Seconds `json:"after_s,omitzero"`
}

// Decision is what is to be done now.
type Decision struct {
	Active int // index of the uplink; -1: leave everything as it is
	Events []Event
	// Every is how often each uplink is to be looked at.
	Every []time.Duration
}

// Decide says which uplink is to be active, and the state after that. It has to be
// asked after all evidence, and each [Rules.Interval] when there is none.
func (c Config) Decide(s State, now Now) (State, Decision) {
	d := &decider{c, s, now, nil}
	d.s.Health = slices.Clone(s.Health)
	d.judge()
	d.calm()
	d.force()
	d.doubt()
	d.choose()
	return d.s, Decision{d.s.Active, d.events, d.every()}
}

// decider is one decision in the making.
type decider struct {
	Config
	s      State
	now    Now
	events []Event
}

func (d *decider) tell(e Event) { d.events = append(d.events, e) }

// judge brings all verdicts up to now.
func (d *decider) judge() {
	for i, h := range d.s.Health {
		h, changed := h.judged(d.Rules, d.now.Boot)
		d.s.Health[i] = h
		if changed {
			d.tell(Event{What: EventVerdict, Uplink: d.Uplinks[i].Name, Verdict: h.Verdict, Why: h.Why, Expected: h.Verdict != Up && d.standing(i).expected})
		}
	}
}

// calm lets the level of damping sink.
func (d *decider) calm() {
	for d.s.Level > 0 && d.now.Boot-d.s.LevelAt >= d.Rules.Calm {
		d.s.Level--
		d.s.LevelAt += d.Rules.Calm
	}
}

// force ends a person's choice whose time is over, or whose uplink does not carry.
func (d *decider) force() {
	f := d.s.Forced
	switch {
	case f.Until == 0:
		return
	case d.now.Boot >= f.Until:
		d.tell(Event{What: EventForced, Uplink: d.Uplinks[f.Uplink].Name, Why: "its time is over"})
	case d.s.Health[f.Uplink].Verdict == Down:
		d.tell(Event{What: EventForced, Uplink: d.Uplinks[f.Uplink].Name, Why: "it is down: " + d.s.Health[f.Uplink].Why})
	default:
		return
	}
	d.s.Forced = Forced{}
}

// choose is the decision.
func (d *decider) choose() {
	best := d.best()
	d.allDown(best)
	switch {
	case best < 0 || best == d.s.Active:
		return
	case d.s.Active < 0:
		if why := d.first(best); why != "" {
			d.switchTo(best, why)
		}
		return
	case !d.proven(best):
		return // a round by it that asks all is under way
	case d.s.Forced.Until > 0 && best == d.s.Forced.Uplink:
		d.switchTo(best, d.s.Forced.Why)
		return
	}
	active := d.s.Health[d.s.Active]
	switch w := d.standing(d.s.Active); {
	case !w.held.IsZero():
		d.stay(w.held)
	case active.Verdict == Down:
		d.flap()
		d.switchTo(best, active.Why)
	case w.leave && !d.standing(best).leave:
		d.switchTo(best, fmt.Sprintf("maintenance of %s from %s to %s", d.Uplinks[d.s.Active].Name, w.start.Format(time.RFC3339), w.end.Format(time.RFC3339)))
	case d.dwell(best) > 0:
		return
	case active.Verdict == Degraded && d.s.Health[best].Verdict == Up:
		d.flap()
		d.switchTo(best, active.Why)
	case active.Verdict == Up && best > d.s.Active:
		return // it is no better than before
	default:
		d.switchTo(best, fmt.Sprintf("it is preferred and good for %v", (d.now.Boot-d.s.Health[best].GoodSince).Round(time.Second)))
	}
}

// dwell is how long uplink i has to wait for the active one yet: not at all where a person
// chose that, and i was up all the time.
func (d *decider) dwell(i int) time.Duration {
	if h := d.s.Health[i]; d.s.Chosen && h.Verdict == Up && h.Since <= d.s.Since {
		return 0
	}
	return max(0, d.Rules.dwell(d.s.Level)-(d.now.Boot-d.s.Since))
}

// first says why best is to be the first active uplink; "" when it is too early to
// say.
func (d *decider) first(best int) string {
	switch {
	case best == 0:
		return "it is preferred and answers"
	case d.now.Boot-d.s.Started >= d.Rules.Start:
		return fmt.Sprintf("nothing better answered in %v", d.Rules.Start)
	}
	for _, h := range d.s.Health[:best] {
		if h.Verdict != Down {
			return ""
		}
	}
	return "what is preferred is down"
}

// best is the uplink that would be active if nothing was before; -1: none can be.
// The uplink that is active stands in this comparison as long as it is not down.
func (d *decider) best() int {
	best, cost := -1, 0
	for i := range d.Uplinks {
		c, usable := d.cost(i)
		if usable && (best < 0 || c < cost) {
			best, cost = i, c
		}
	}
	return best
}

// cost orders uplinks that can be used: first what a person chose, then those that
// are up, then those that are degraded or about to be worked on, and last those
// that only just began to answer.
func (d *decider) cost(i int) (cost int, usable bool) {
	h := d.s.Health[i]
	switch {
	case i == d.s.Active && h.Verdict != Down:
	case !h.answers(d.Rules, d.now.Boot):
		return 0, false
	}
	switch h.Verdict {
	case Degraded:
		cost++
	case Down, Unknown:
		cost += 4
	}
	if d.standing(i).leave {
		cost += 2
	}
	if f := d.s.Forced; f.Until > 0 && f.Uplink == i {
		cost = -1
	}
	return cost, true
}

// allDown tells once when nothing can be used, and once when something can.
func (d *decider) allDown(best int) {
	known := !slices.ContainsFunc(d.s.Health, func(h Health) bool { return h.Verdict == Unknown })
	down := best < 0 && (known || d.now.Boot-d.s.Started >= d.Rules.Start)
	switch {
	case down && !d.s.AllDown:
		d.s.AllDown = true
		d.tell(Event{What: EventAllDown, Why: "no uplink answers: everything stays as it is"})
	case best >= 0 && d.s.AllDown:
		d.s.AllDown = false
		d.tell(Event{What: EventSome, Uplink: d.Uplinks[best].Name, Why: "it answers"})
	}
}

func (d *decider) switchTo(i int, why string) {
	e := Event{What: EventSwitch, Uplink: d.Uplinks[i].Name, Verdict: d.s.Health[i].Verdict, Why: why}
	if d.s.Active >= 0 {
		e.From, e.Expected = d.Uplinks[d.s.Active].Name, d.standing(d.s.Active).expected
		e.After = Seconds(d.s.Health[d.s.Active].ailing(d.now.Boot))
	}
	d.s.Active, d.s.Since, d.s.Held = i, d.now.Boot, time.Time{}
	d.s.Chosen = d.s.Forced.Until > 0 && d.s.Forced.Uplink == i
	d.tell(e)
}

// flap raises the level of damping for a failover that nobody expected.
func (d *decider) flap() {
	if d.standing(d.s.Active).expected {
		return
	}
	if d.Rules.dwell(d.s.Level+1) > d.Rules.dwell(d.s.Level) || d.s.Level == 0 {
		d.s.Level++
	}
	d.s.LevelAt = d.now.Boot
}

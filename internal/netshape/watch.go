package netshape

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Event is something that a watch saw or did.
type Event struct {
	Interface string
	What      string // one of the Event constants
	Text      string
}

// What events are about.
const (
	EventApplied = "applied" // it was set up, or set up again
	EventDrift   = "drift"   // somebody else's stands there now; it is left alone
	EventGone    = "gone"    // the interface is not there
	EventFailed  = "failed"  // setting it up did not work
	EventHeld    = "held"    // an apply waits for confirmation, or was taken back
	EventGood    = "good"    // all stands again as desired
)

// every is how often a watch looks at everything, for what no event tells of:
// nft flush ruleset, or a tc command.
const every = 10 * time.Second

// settling is how long a watch waits after an event for those that come with it.
const settling = 200 * time.Millisecond

// late is how long after its time a watch takes back an apply whose own process
// does not: it must have been killed.
const late = 15 * time.Second

// Watch keeps d standing until ctx ends: it looks at once, after each of events
// (changes of links) and every ten seconds, sets up again what is gone, and leaves
// alone what others put in its place. report is told of each change of what is to
// be said about an interface. Nothing is done while an apply waits for
// confirmation, nor about an interface whose apply was taken back, until somebody
// applies it. What was applied in this boot counts for more than d. Errors end nothing.
func (m *Machine) Watch(ctx context.Context, d Desired, events <-chan struct{}, report func(Event)) {
	said := map[string]Event{}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		now := m.reconcile(ctx, d)
		for _, name := range slices.Sorted(maps.Keys(now)) {
			if e := now[name]; e != said[name] && (e.What != EventGood || said[name].What != "" && said[name].What != EventApplied) {
				report(e)
			}
			said[name] = now[name]
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case _, open := <-events:
			if !open {
				events = nil
			} else if sleep(ctx, settling) != nil {
				return
			}
		}
	}
}

// reconcile looks at each interface once, and says what was to be seen.
func (m *Machine) reconcile(ctx context.Context, d Desired) map[string]Event {
	said := map[string]Event{}
	for _, i := range d.Interfaces {
		said[i.Name] = m.Uphold(ctx, Desired{[]Interface{i}, d.Classes, d.Mask})
	}
	return said
}

// Uphold is one look of [Machine.Watch] at d, which is of one interface: it sets up
// what is gone, leaves alone what Watch does, and returns what there is to say. ctx
// bounds the wait for others who change something.
func (m *Machine) Uphold(ctx context.Context, d Desired) Event {
	d.Interfaces = slices.Clone(d.Interfaces) // what was applied goes in the place of it
	e, err := m.reconcileOne(ctx, d)
	if err != nil {
		e = Event{What: EventFailed, Text: err.Error()}
	}
	e.Interface = d.Interfaces[0].Name
	return e
}

func (m *Machine) reconcileOne(ctx context.Context, d Desired) (Event, error) {
	o, err := m.Observe(d.Interfaces[0].Name)
	if err != nil {
		return Event{}, err
	}
	r, err := m.rollbacks()
	if err != nil {
		return Event{}, err
	}
	if q := o.Pending; q != nil && time.Now().After(q.Until.Add(late)) {
		_, err := m.Rollback(ctx, q.ID)
		return Event{What: EventHeld, Text: "took back what nobody confirmed: " + q.ID}, err
	}
	d.applied(o)
	p := Make(d, o, false)
	e, act := decide(d.Interfaces[0], o, r, p)
	if !act {
		return e, nil
	}
	_, err = m.Apply(ctx, p, 0)
	if errors.Is(err, ErrChanged) {
		return Event{What: EventGood}, nil // somebody is at it; the next look will tell
	}
	return e, err
}

// applied puts what was applied last in this boot in the place of what d wants of
// its one interface, and of the marks.
func (d *Desired) applied(o Observed) {
	if p := o.Interfaces[d.Interfaces[0].Name]; p.record != nil && p.as == d.Interfaces[0].Name {
		d.Interfaces[0] = p.record.Interface
	}
	if o.marks != nil {
		d.Classes, d.Mask = o.marks.Config.Classes, o.marks.Config.Mask
	}
}

// decide says what there is to be told of an interface, and whether p is to be
// applied. It is pure.
func decide(want Interface, o Observed, r rollbacks, p Plan) (e Event, act bool) {
	have, there := o.Interfaces[want.Name]
	switch {
	case !there:
		return Event{What: EventGone, Text: "waiting for the interface"}, false
	case o.Pending != nil:
		return Event{What: EventHeld, Text: "an apply waits for its confirmation: " + o.Pending.ID}, false
	case slices.Contains(r.Refused, want):
		return Event{What: EventHeld, Text: "was taken back for want of a confirmation; apply it to try again"}, false
	case have.Root.foreign() && want.Root.Kind != "":
		return Event{What: EventDrift, Text: fmt.Sprintf("the root is %v now, which is not ours: it stays", have.Root)}, false
	case len(p.Refusals) > 0:
		return Event{What: EventFailed, Text: (&RefusedError{p.Refusals}).Error()}, false
	case p.Equal && len(p.records) == 0 && !p.marksKnown:
		return Event{What: EventGood, Text: "stands as desired"}, false
	}
	return Event{What: EventApplied, Text: p.reasons(have)}, true
}

// reasons are why a watch has something to do.
func (p Plan) reasons(have present) string {
	if have.record == nil {
		return "set up"
	}
	words := have.drift(true)
	for _, s := range p.Steps {
		if s.Slot == slotMarks {
			words = append(words, "the table of marks was changed or is gone")
		}
	}
	if len(words) == 0 {
		return "state file written again"
	}
	return "set up again: " + strings.Join(words, "; ")
}

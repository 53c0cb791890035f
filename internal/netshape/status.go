package netshape

import (
	"fmt"
	"strings"
	"time"

	"trafficup/internal/dscpmark"
	"trafficup/internal/tc"
)

// Status is what stands, and how that differs from what was set up.
type Status struct {
	Interfaces []InterfaceStatus `json:"interfaces"`
	Marks      MarksStatus       `json:"marks"`
	Pending    *Pending          `json:"pending,omitempty"`
	Rollbacks  int               `json:"rollbacks"` // in this boot
	// Denied says why marks could not be read; "": they could.
	Denied string `json:"denied,omitempty"`
	// Unreadable says why it is not known what was applied, what waits and what was
	// rolled back; "": it is.
	Unreadable string `json:"unreadable,omitempty"`
}

// InterfaceStatus is one interface. Counters are the kernel's.
type InterfaceStatus struct {
	Name    string       `json:"name"`
	Present bool         `json:"present"`
	Up      bool         `json:"up"`
	Ours    bool         `json:"ours"` // what stands at the root
	Root    QueueStatus  `json:"root"`
	Ingress *QueueStatus `json:"ingress,omitempty"`
	Wanted  *Wanted      `json:"wanted,omitempty"` // what was set up; nil: nothing
	Since   time.Time    `json:"since,omitzero"`   // when
	Drift   []string     `json:"drift,omitempty"`  // how what stands differs from Wanted
	// Autorate is there while the rate of what goes out is fitted to the link.
	Autorate *AutorateStatus `json:"autorate,omitempty"`
}

// Wanted is what was set up at an interface.
type Wanted struct {
	Kind    string `json:"kind"`              // cake, fq_codel or none
	Profile string `json:"profile,omitempty"` // leo, geo or lte; "": none was given
	Up      uint64 `json:"up_bit_s"`          // 0: no rate
	Down    uint64 `json:"down_bit_s"`        // 0: what comes in is left alone
	Root    string `json:"root"`              // with its options, as tc prints them
	Ingress string `json:"ingress,omitempty"`
}

// AutorateStatus is a rate that is fitted to the link.
type AutorateStatus struct {
	Min     uint64    `json:"min_bit_s"`
	Applied uint64    `json:"applied_bit_s"`       // the highest, which comes back at the end
	Lowered time.Time `json:"lowered_at,omitzero"` // since when it is less than that; zero: it is not
}

// QueueStatus is one queue.
type QueueStatus struct {
	Kind  tc.Kind  `json:"kind"`
	Text  string   `json:"text"`       // with its options, as tc prints them
	Rate  uint64   `json:"rate_bit_s"` // 0: none
	Stats tc.Stats `json:"stats"`
	Tins  []tc.Tin `json:"tins,omitempty"`
}

// MarksStatus is the table of marks.
type MarksStatus struct {
	Present bool            `json:"present"`
	Rules   []dscpmark.Rule `json:"-"`
	Classes []ClassStatus   `json:"classes,omitempty"` // Rules in short
	Drift   string          `json:"drift,omitempty"`
}

// Status reads what stands at each of names, and changes nothing. Without rights
// it leaves out the marks.
func (m *Machine) Status(names ...string) (Status, error) {
	o, err := m.Observe(names...)
	if err != nil {
		return Status{}, err
	}
	s := Status{Pending: o.Pending, Marks: o.marksStatus()}
	if o.Denied != nil {
		s.Denied = "that needs the capability CAP_NET_ADMIN, which this process lacks"
	}
	r, err := m.rollbacks()
	if o.known(err) != nil {
		return s, err
	}
	if o.Unreadable != nil {
		s.Unreadable = o.Unreadable.Error()
	}
	s.Rollbacks = r.Count
	for _, name := range names {
		p, ok := o.Interfaces[name]
		if !ok {
			rec, err := m.recorded(name)
			if o.known(err) != nil {
				return s, err
			}
			p.record = rec
		}
		i := p.status(name, ok)
		if i.Autorate, err = m.autorate(p); err != nil {
			return s, err
		}
		s.Interfaces = append(s.Interfaces, i)
	}
	return s, nil
}

func (p present) status(name string, there bool) InterfaceStatus {
	s := InterfaceStatus{Name: name, Present: there, Up: p.Link.Up, Ours: p.Root.ours(), Root: queueStatus(p.Root, p.root)}
	if p.Ingress.ours() {
		q := queueStatus(p.Ingress, p.ingress)
		s.Ingress = &q
	}
	if p.record != nil {
		s.Wanted, s.Since, s.Drift = p.record.Interface.wanted(), p.record.Since, p.drift(there)
	}
	return s
}

func (i Interface) wanted() *Wanted {
	w := Wanted{Kind: i.Kind, Profile: i.Profile, Up: i.Up, Down: i.Down, Root: describe(i.Root)}
	if i.Ingress.Kind != "" {
		w.Ingress = describe(i.Ingress)
	}
	return &w
}

func queueStatus(s stand, q tc.Qdisc) QueueStatus {
	status := QueueStatus{Kind: q.Kind, Text: s.String(), Stats: q.Stats, Tins: q.Tins}
	switch {
	case !s.ours() && !s.foreign():
		status.Text = string(q.Kind) // the kernel's own
	case !s.ours():
	case q.Shaper.Kind != "": // its rate may be lower on purpose
		status.Text, status.Rate = describe(q.Shaper), rateOf(q.Shaper)
	}
	return status
}

// drift says how p differs from its record, which there is.
func (p present) drift(there bool) (words []string) {
	if !there {
		return []string{"the interface is gone"}
	}
	want := p.record.Interface
	if want.Name != p.Link.Name {
		words = append(words, fmt.Sprintf("it was set up as %s and is called %s now", want.Name, p.Link.Name))
	}
	if p.record.Link != p.Link.Index {
		words = append(words, "the interface went and came back")
	}
	for _, slot := range []struct {
		name       string
		have, want stand
	}{{slotRoot, p.Root, stand{Shaper: want.Root}}, {slotIngress, p.Ingress, stand{Shaper: want.Ingress}}} {
		switch {
		case slot.have.equal(slot.want), want.Kind == None && !slot.have.ours(): // the queue is not our affair
		case slot.have.foreign():
			words = append(words, fmt.Sprintf("%s: replaced by %v, which is not ours", slot.name, slot.have))
		case !slot.have.ours():
			words = append(words, slot.name+": gone, the kernel's default is back")
		default:
			words = append(words, slot.name+": "+strings.Join(differences(slot.want.Shaper, slot.have.Shaper), ", "))
		}
	}
	return words
}

func (o Observed) marksStatus() MarksStatus {
	s := MarksStatus{Present: o.Marks.Present, Rules: o.Marks.Rules, Classes: classesOf(o.Marks.Rules)}
	switch {
	case o.Denied != nil:
	case o.marks == nil:
	case !o.Marks.Present:
		s.Drift = "the table is gone"
	case o.Marks.Damage != "":
		s.Drift = o.Marks.Damage
	default:
		if want, err := o.print(&o.marks.Config); err != nil {
			s.Drift = err.Error()
		} else if want != o.Marks.Fingerprint {
			s.Drift = "the table is of another configuration, or a cgroup was made anew"
		}
	}
	return s
}

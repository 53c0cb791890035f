package netshape

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"trafficup/internal/dscpmark"
	"trafficup/internal/tc"
)

// Slots are the places of an interface where something can stand. The table of
// marks is one for the whole machine.
const (
	slotRoot    = "root"
	slotIngress = "ingress"
	slotMarks   = "marks"
)

// Step is one change. Op is + for what is added, - for what is removed and ~ for
// what changes.
type Step struct {
	Op        string   `json:"op"`
	Interface string   `json:"interface,omitempty"`
	Slot      string   `json:"slot"`
	Text      string   `json:"text"`
	Why       string   `json:"why,omitempty"`
	Commands  []string `json:"commands,omitempty"` // of tc and nft that come to the same

	change change
}

// change is a step as it is done, and undone by exchanging From and To.
type change struct {
	Interface string `json:"interface"` // as the state has it
	dev       string // what it is called now; "": the same
	Link      int    `json:"link"`
	Slot      string `json:"slot"`
	From      stand  `json:"from,omitzero"`
	To        stand  `json:"to,omitzero"`
	// Instead is put back where From is damaged: what we had set. None: the default.
	Instead tc.Shaper `json:"instead,omitzero"`
	// nil: no table
	MarksFrom *dscpmark.Config `json:"marks_from,omitempty"`
	MarksTo   *dscpmark.Config `json:"marks_to,omitempty"`
}

// Plan is what [Machine.Apply] does. Refusals are reasons to do nothing at all.
type Plan struct {
	Steps    []Step    `json:"steps"`
	Refusals []Refusal `json:"refusals,omitempty"`
	Notes    []string  `json:"notes,omitempty"`
	// Equal: everything stands as desired; there are no steps.
	Equal bool `json:"equal"`

	desired Desired
	force   bool
	clear   []string           // the interfaces of a plan of MakeClear
	records map[string]*record // to be written; nil: removed
	// marks is the state file of the table, nil: removed; untouched unless marksKnown.
	marks      *marksRecord
	marksKnown bool
	boot       string
}

// Make compares what is desired with what was observed. It is pure: the same
// values give the same plan. force replaces what others set up.
func Make(d Desired, o Observed, force bool) Plan {
	p := Plan{desired: d, force: force, records: map[string]*record{}, boot: o.boot}
	p.refuseGeneral(d, o)
	for _, want := range d.Interfaces {
		have, ok := o.Interfaces[want.Name]
		if !ok {
			p.refuse(missingInterface(want.Name, o.among(d.Names()), o))
			continue
		}
		if r, renamed := have.renamed(want.Name); renamed {
			p.refuse(r)
			continue
		}
		p.refuseMissing(want, o.Missing)
		p.planInterface(want, have, len(d.Classes) > 0)
	}
	p.planMarks(d, o)
	p.finish()
	return p
}

// finish puts the steps into an order that never leaves an interface without what
// it had: what is taken away comes last.
func (p *Plan) finish() {
	rank := func(s Step) int {
		if s.Op == "-" {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(p.Steps, func(a, b Step) int { return cmp.Compare(rank(a), rank(b)) })
	p.Equal = len(p.Steps) == 0 && len(p.Refusals) == 0
}

func (p *Plan) note(format string, a ...any) { p.Notes = append(p.Notes, fmt.Sprintf(format, a...)) }

func (p *Plan) planInterface(want Interface, have present, marked bool) {
	switch {
	case want.Kind == None && marked:
		p.note("%s: kind none marks the classes and shapes nothing: that has no effect on the delay in the modem or dish unless what shapes there goes by the marks", want.Name)
	case want.Kind == None:
		p.note("%s: kind none without classes shapes nothing and marks nothing: what was set up here goes; to shape, take kind cake or fq_codel, and a rate", want.Name)
	case want.Up == 0:
		p.note("%s: without a rate below the uplink's this has no effect on the delay in the modem or dish: set the rate (--up, or up in the file) to 80%% to 95%% of what the uplink carries", want.Name)
	}
	if have.Link.Queues > 1 && want.Root.Kind != "" {
		p.note("%s: sends from %d queues; one shaper for all of them takes one lock, which is slow above 1 Gbit/s or so", want.Name, have.Link.Queues)
	}
	root := stand{Shaper: want.Root}
	if !root.ours() && have.Root.ours() {
		root = have.before()
	}
	p.place(want.Name, have, slotRoot, have.Root, root)
	if want.Ingress.Kind != "" && have.block != "" {
		p.refuse(blocked(want.Name, have))
	} else {
		p.place(want.Name, have, slotIngress, have.Ingress, stand{Shaper: want.Ingress})
	}
	p.record(want, have, marked)
}

// record plans the state file. What stood before is what was found when nothing
// of ours stood there. Of an interface that is marked alone nothing did.
func (p *Plan) record(want Interface, have present, marked bool) {
	next := &record{Boot: p.boot, Link: have.Link.Index, Interface: want, Before: have.Root}
	switch {
	case want.Kind == None && !marked:
		next = nil
	case want.Kind == None:
		next.Before = stand{}
	case have.Root.ours():
		next.Before = have.before()
	}
	if next == nil && have.record == nil {
		return
	}
	if next != nil && have.record != nil && have.record.Interface == want && have.record.Link == next.Link && have.record.Before.equal(next.Before) {
		return
	}
	p.records[want.Name] = next
}

// place plans what is to stand in a slot.
func (p *Plan) place(name string, link present, slot string, have, want stand) {
	if have.foreign() && !want.ours() && !want.foreign() {
		p.note("%s: the %s is %v, which is not ours and stays", name, slot, have)
		return
	}
	if have.equal(want) {
		return
	}
	if have.foreign() {
		if !p.force {
			p.refuse(foreignQdisc(name, slot, link))
			return
		}
		switch {
		case slot == slotIngress:
			p.note("%s: clear will leave the kernel's default at %s, and not %v; others' filters stay", name, ifbName(name), have)
		case have.Foreign.Classes:
			p.note("%s: %v at the %s has classes or filters that cannot be put back: clear will leave the kernel's default", name, have, slot)
		}
	}
	c := change{Interface: name, dev: link.Link.Name, Link: link.Link.Index, Slot: slot, From: have, To: want}
	if r := link.record; r != nil && slot == slotRoot {
		c.Instead = r.Interface.Root
	} else if r != nil {
		c.Instead = r.Interface.Ingress
	}
	p.Steps = append(p.Steps, c.step())
}

// step is the change for people.
func (c change) step() Step {
	s := Step{Op: "~", Interface: cmp.Or(c.dev, c.Interface), Slot: c.Slot, change: c, Commands: commands(c)}
	from, to := c.From, c.To
	switch {
	case !to.ours() && !to.foreign():
		s.Op, s.Text = "-", from.String()
		if c.Slot == slotRoot {
			s.Why = "the kernel's default comes back"
		}
	case !from.ours() && !from.foreign():
		s.Op, s.Text = "+", to.String()
	case from.damaged():
		s.Text, s.Why = to.String(), "repaired: "+strings.Join(differences(to.Shaper, from.Shaper), ", ")
	case !from.ours() || !to.ours():
		s.Text, s.Why = to.String(), fmt.Sprintf("recreated: %v goes; packets in its queue are dropped", from)
	case from.Shaper.Kind != to.Shaper.Kind:
		s.Text, s.Why = to.String(), fmt.Sprintf("recreated: kind %s becomes %s; packets in its queue are dropped and counters begin at 0", from.Shaper.Kind, to.Shaper.Kind)
	default:
		s.Text, s.Why = to.String(), changedInPlace(from.Shaper, to.Shaper)
	}
	return s
}

// planMarks plans the table of marks, which is one for all interfaces: those
// shaped earlier keep their marks.
func (p *Plan) planMarks(d Desired, o Observed) {
	switch {
	case o.Denied != nil:
		return // refused already, and the table could not be read
	case o.NoMarks != nil && len(d.Classes) > 0:
		p.refuse(noMarks(o.NoMarks))
		return
	case o.NoMarks != nil:
		return // there cannot be one
	}
	var from *dscpmark.Config
	if o.marks != nil {
		from = &o.marks.Config
	}
	var to *dscpmark.Config
	if len(d.Classes) > 0 {
		c := d.marksConfig()
		if from != nil {
			c.Interfaces = append(c.Interfaces, from.Interfaces...)
		}
		slices.Sort(c.Interfaces)
		c.Interfaces = slices.Compact(c.Interfaces)
		to = &c
	}
	p.placeMarks(o, from, to)
}

// placeMarks plans that to stands instead of what was recorded as from.
func (p *Plan) placeMarks(o Observed, from, to *dscpmark.Config) {
	if to != nil {
		for _, c := range o.Collisions {
			p.note("marks: %s", c)
		}
	}
	if owned := o.Marks.Owned; owned || o.foreignTable() && (to == nil || !p.force) {
		switch {
		case to != nil && owned:
			p.refuse(ownedTable())
		case to != nil:
			p.refuse(foreignTable())
		case owned && o.marks != nil:
			p.recordMarks(o, nil, "") // ours is gone
		}
		return
	}
	if o.foreignTable() {
		p.note("marks: the table inet trafficup is somebody else's, and cannot be brought back: neither a rollback nor clear does")
	}
	want, err := o.print(to)
	if err != nil {
		p.refuse(badMarks(err))
		return
	}
	p.recordMarks(o, to, want)
	if o.Marks.Present == (to != nil) && o.Marks.Fingerprint == want {
		return
	}
	if had, err := o.print(from); !o.Marks.Present || err != nil || had != o.Marks.Fingerprint {
		from = nil // it does not stand as recorded: it can be replaced and not brought back
	}
	p.Steps = append(p.Steps, change{Slot: slotMarks, MarksFrom: from, MarksTo: to}.marksStep(o))
}

// marksStep is the change of the table for people.
func (c change) marksStep(o Observed) Step {
	s := Step{Op: "~", Slot: slotMarks, change: c, Commands: nftCommands(o.tables, c.MarksTo), Text: describeMarks(c.MarksTo)}
	switch {
	case !o.Marks.Present:
		s.Op = "+"
	case c.MarksTo == nil:
		s.Op, s.Text = "-", describeMarks(c.MarksFrom)
	case o.Marks.Damage != "":
		s.Why = "it is not whole: " + o.Marks.Damage
	default:
		s.Why = "the rules are swapped at once; counters begin at 0"
	}
	return s
}

// recordMarks plans the state file of the marks, whose fingerprint is print.
func (p *Plan) recordMarks(o Observed, to *dscpmark.Config, print string) {
	if to == nil {
		p.marksKnown = o.marks != nil
		return
	}
	if o.marks != nil {
		if had, err := o.print(&o.marks.Config); err == nil && had == print {
			return
		}
	}
	p.marks, p.marksKnown = &marksRecord{Boot: p.boot, Config: *to}, true
}

// refuseMissing refuses kinds that this kernel cannot make. None is an alternative
// to another where there is neither.
func (p *Plan) refuseMissing(want Interface, missing []tc.Kind) {
	lacks := func(k tc.Kind) bool { return slices.Contains(missing, k) }
	if want.Root.Kind != "" && lacks(tc.KindCake) && (lacks(tc.KindHTB) || lacks(tc.KindFqCodel)) {
		p.refuse(noQueue(want.Name, missing))
		missing = slices.DeleteFunc(slices.Clone(missing), func(k tc.Kind) bool { return slices.Contains(queues, k) })
	}
	for _, kind := range needs(want) {
		if slices.Contains(missing, kind) {
			p.refuse(missingKind(want, kind))
		}
	}
}

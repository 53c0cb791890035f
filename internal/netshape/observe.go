package netshape

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"trafficup/internal/dscpmark"
	"trafficup/internal/tc"
)

// Observed is what [Make] compares with what is desired: all that was read, and
// all that was wrong with reading it.
type Observed struct {
	Interfaces map[string]present // those asked for that exist
	Names      []string           // of all interfaces
	Denied     error              // why this process may not change anything; nil: it may
	Unreadable error              // why it is not known what was applied ([ErrUnreadable]); nil: it is
	Missing    []tc.Kind          // of those that may be needed

	Marks      dscpmark.State
	NoMarks    error // why this kernel can have no table; nil: it can
	marks      *marksRecord
	Collisions []string
	tables     tables

	Pending   *Pending
	boot      string
	contained bool
}

// present is an interface as it was found.
type present struct {
	Link    Link
	as      string // the name by which the state has it: its own, unless it was renamed
	moved   string // who has what was set up when another interface had this one's name; "": nobody
	Root    stand
	Ingress stand
	root    tc.Qdisc
	ingress tc.Qdisc // the queue of the ifb, when the ingress is ours
	block   string   // why what comes in cannot be led anywhere; "": it can
	users   []string // others whose filters lead to the ifb
	traces  bool     // there is something of ours on the way in
	record  *record
}

// before is what stood at the root before ours did; the kernel's default where
// nobody knows, or where it cannot be put back.
func (p present) before() stand {
	if r := p.record; r != nil && r.Link == p.Link.Index && !r.Before.Foreign.Classes {
		return r.Before
	}
	return stand{}
}

// Observe reads the kernel and the state directory, and changes nothing. names are
// the interfaces of interest, those that are missing included. Without rights it
// reads what it can; Denied and Unreadable say so.
func (m *Machine) Observe(names ...string) (Observed, error) {
	o := Observed{Interfaces: map[string]present{}, boot: m.Boot, contained: m.Contained, tables: m.Marks}
	links, err := m.Kernel.Links()
	if err != nil {
		return o, fmt.Errorf("list interfaces: %w", err)
	}
	for _, l := range links {
		o.Names = append(o.Names, l.Name)
	}
	slices.Sort(o.Names)
	for _, name := range names {
		p, ok, err := m.observeNamed(name, links)
		if o.known(err) != nil {
			return o, fmt.Errorf("%s: %w", name, err)
		}
		if ok {
			o.Interfaces[name] = p
		}
	}
	if o.Pending, err = m.pending(); o.known(err) != nil {
		return o, err
	}
	if o.marks, err = m.recordedMarks(); o.known(err) != nil {
		return o, err
	}
	return o, m.observeRights(&o)
}

// known keeps an error about state that may not be read, and returns all others.
func (o *Observed) known(err error) error {
	if !errors.Is(err, ErrUnreadable) {
		return err
	}
	o.Unreadable = err
	return nil
}

// among are those of names that exist.
func (o Observed) among(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return o.Interfaces[n].Link.Index == 0 })
}

// find reads a single interface, and of the state what it may.
func (m *Machine) find(name string) (p present, ok bool, err error) {
	links, err := m.Kernel.Links()
	if err != nil {
		return p, false, fmt.Errorf("list interfaces: %w", err)
	}
	l, ok := linkOf(links, name)
	if !ok {
		return p, false, nil
	}
	if p, err = m.observe(l, name, links); errors.Is(err, ErrUnreadable) {
		err = nil
	}
	return p, true, err
}

func linkOf(links []Link, name string) (l Link, ok bool) {
	i := slices.IndexFunc(links, func(l Link) bool { return l.Name == name })
	if i < 0 {
		return l, false
	}
	return links[i], true
}

// Support asks the kernel for all that shaping and marking may need, as [Make] goes by
// it, and changes nothing. Of what it returns Denied, Missing and NoMarks count; where
// the first is set, the others are not known.
func (m *Machine) Support() (o Observed, err error) {
	if err = m.observeRights(&o); err != nil || o.Denied != nil || o.NoMarks != nil {
		return o, err
	}
	all := dscpmark.Config{Interfaces: []string{"any"}, Classes: []dscpmark.Class{
		{Name: "local", Match: dscpmark.Match{User: new(uint32), Ports: []uint16{443}}},
		{Name: "lan", Match: dscpmark.Match{Hosts: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/32"), netip.MustParsePrefix("2001:db8::1/128")}}},
	}}
	o.NoMarks = m.Marks.Check(all)
	return o, nil
}

// observeRights reads what needs rights, or why they are missing.
func (m *Machine) observeRights(o *Observed) (err error) {
	if o.Denied = m.Kernel.Rights(); o.Denied != nil {
		return nil // the table cannot be read either
	}
	if o.Missing, err = m.Kernel.Missing(append(queues[:len(queues):len(queues)], tc.KindIngress, kindIFB)); err != nil {
		return fmt.Errorf("ask the kernel for its queues: %w", err)
	}
	switch o.Marks, err = m.Marks.Read(); {
	case errors.Is(err, dscpmark.ErrUnsupported):
		o.NoMarks = err
	case err != nil:
		return fmt.Errorf("read the table of marks: %w", err)
	}
	return nil
}

// observe reads l, which the state knows as that.
func (m *Machine) observe(l Link, as string, all []Link) (p present, err error) {
	p.Link, p.as = l, as
	list, err := m.Kernel.Qdiscs(l.Index)
	if err != nil {
		return p, fmt.Errorf("read queues: %w", err)
	}
	p.Root, p.root = rootOf(list)
	if i := slices.IndexFunc(list, func(q tc.Qdisc) bool { return q.Parent == tc.Ingress && q.Block != 0 }); i >= 0 {
		p.block = fmt.Sprintf("what comes in by %s goes through the filters of the shared block %d, where there is no place for one of %s alone", l.Name, list[i].Block, l.Name)
	}
	record, unread := m.recorded(as)
	if record != nil && record.Link != l.Index {
		if other, living := linkAt(all, record.Link); living { // it is about that one
			p.moved, record = other.Name, nil
		}
	}
	if p.record = record; unread == nil {
		unread = m.disregard(&p)
	}
	if unread != nil && !errors.Is(unread, ErrUnreadable) {
		return p, unread
	}
	if err := m.observeIngress(&p, all); err != nil {
		return p, err
	}
	return p, unread
}

// observeIngress tells whether what comes in is led through our ifb. An ingress
// qdisc of others is no obstacle: theirs and our filters stand side by side. The
// ifb's name alone proves nothing, for sqm-scripts gives it, too: the handle of its
// queue does, or our state file. One that is empty and that no filter leads to, of
// whatever interface, is nobody's.
func (m *Machine) observeIngress(p *present, all []Link) (err error) {
	recorded := p.record != nil && p.record.Interface.Ingress.Kind != ""
	ifb, ok := linkOf(all, ifbName(p.as))
	if ok && ifb.Kind != string(kindIFB) {
		ok, p.block = false, fmt.Sprintf("%s, by way of which what comes in would be led, is a %s and no ifb", ifb.Name, ifb.Kind)
	}
	if !ok {
		p.traces, _, err = m.Kernel.Redirected(p.Link.Index, 0)
		if err != nil {
			return fmt.Errorf("read filters: %w", err)
		}
		if p.traces {
			p.Ingress.Shaper.Kind = kindIFB // damaged
		}
		return nil
	}
	inner, err := m.Kernel.Qdiscs(ifb.Index)
	if err != nil {
		return fmt.Errorf("read queues of %s: %w", ifb.Name, err)
	}
	led, theirs := false, false
	for _, l := range all {
		ours, others, err := m.Kernel.Redirected(l.Index, ifb.Index)
		switch {
		case err != nil && !errors.Is(err, ErrNoLink):
			return fmt.Errorf("read filters of %s: %w", l.Name, err)
		case l.Index == p.Link.Index:
			led, theirs = ours, others
		case ours || others:
			p.users = append(p.users, l.Name)
		}
	}
	s, q := rootOf(inner)
	idle := !led && !theirs && p.users == nil
	p.traces = led || s.ours() && p.users == nil || ifb.Made && idle
	switch {
	case led && s.ours():
		p.Ingress, p.ingress = s, q
	case recorded || s.ours() && p.users == nil:
		p.Ingress.Shaper.Kind = kindIFB // damaged
	case s.foreign():
		p.Ingress = s
	case !idle: // with the kernel's queue, to mirror or to count, or with that of another of ours
		p.Ingress.Foreign = foreign{Kind: kindIFB, Classes: true}
	}
	return nil
}

// print is the fingerprint of a table, "" when it cannot be made now.
func (o Observed) print(c *dscpmark.Config) (string, error) {
	if c == nil {
		return "", nil
	}
	return o.tables.Fingerprint(*c)
}

// foreignTable reports that there is a table of our name that nothing in it or on
// the disk says is ours.
func (o Observed) foreignTable() bool {
	ours := o.Marks.Fingerprint != "" || o.marks != nil ||
		slices.ContainsFunc(o.Marks.Rules, func(r dscpmark.Rule) bool { return r.Class != "" })
	return o.Marks.Present && !ours
}

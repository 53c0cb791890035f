package netshape

import (
	"errors"
	"fmt"
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
	Root    stand
	Ingress stand
	root    tc.Qdisc
	ingress tc.Qdisc // the queue of the ifb, when the ingress is ours
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
// reads what it can; Denied says so.
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
		l, ok := linkOf(links, name)
		if !ok {
			continue
		}
		if o.Interfaces[name], err = m.observe(l, links); err != nil {
			return o, fmt.Errorf("%s: %w", name, err)
		}
	}
	if o.Pending, err = m.pending(); err != nil {
		return o, err
	}
	if o.marks, err = m.recordedMarks(); err != nil {
		return o, err
	}
	return o, m.observeRights(&o)
}

// find reads a single interface.
func (m *Machine) find(name string) (p present, ok bool, err error) {
	links, err := m.Kernel.Links()
	if err != nil {
		return p, false, fmt.Errorf("list interfaces: %w", err)
	}
	l, ok := linkOf(links, name)
	if ok {
		p, err = m.observe(l, links)
	}
	return p, ok, err
}

func linkOf(links []Link, name string) (l Link, ok bool) {
	i := slices.IndexFunc(links, func(l Link) bool { return l.Name == name })
	if i < 0 {
		return l, false
	}
	return links[i], true
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

func (m *Machine) observe(l Link, all []Link) (p present, err error) {
	p.Link = l
	list, err := m.Kernel.Qdiscs(l.Index)
	if err != nil {
		return p, fmt.Errorf("read queues: %w", err)
	}
	p.Root, p.root = rootOf(list)
	if p.record, err = m.recorded(l.Name); err != nil {
		return p, err
	}
	if err := m.disregard(&p); err != nil {
		return p, err
	}
	return p, m.observeIngress(&p, all)
}

// observeIngress tells whether what comes in is led through our ifb. An ingress
// qdisc of others is no obstacle: theirs and our filters stand side by side. The
// ifb's name alone proves nothing, for sqm-scripts gives it, too: the handle of its
// queue does, or our state file. One that is empty and unused is nobody's.
func (m *Machine) observeIngress(p *present, all []Link) error {
	ifb, ok := linkOf(all, ifbName(p.Link.Name))
	if !ok {
		return nil
	}
	inner, err := m.Kernel.Qdiscs(ifb.Index)
	if err != nil {
		return fmt.Errorf("read queues of %s: %w", ifb.Name, err)
	}
	led, err := m.Kernel.Redirected(p.Link.Index, ifb.Index)
	if err != nil {
		return fmt.Errorf("read filters: %w", err)
	}
	s, q := rootOf(inner)
	recorded := p.record != nil && p.record.Interface.Ingress.Kind != ""
	switch {
	case led && s.ours():
		p.Ingress, p.ingress = s, q
	case recorded || s.ours():
		p.Ingress.Shaper.Kind = kindIFB // damaged
	case s.foreign():
		p.Ingress = s
	case led: // with the kernel's queue: to mirror, or to count
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
	ours := o.Marks.Fingerprint != "" || o.marks != nil || len(o.Marks.Rules) == 0 ||
		slices.ContainsFunc(o.Marks.Rules, func(r dscpmark.Rule) bool { return r.Class != "" })
	return o.Marks.Present && !ours
}

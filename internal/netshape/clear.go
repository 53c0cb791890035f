package netshape

import "slices"

// MakeClear plans the way back: what stood before, or the kernel's default, at
// each of names; no marks for them. What others put there since then stays. An
// interface that is gone took everything with it. It is pure.
func MakeClear(names []string, o Observed) Plan {
	p := Plan{clear: append([]string{}, names...), records: map[string]*record{}, boot: o.boot}
	p.refuseGeneral(Desired{}, o)
	done := map[int]bool{} // by link: two names may be those of one that was renamed
	for _, name := range names {
		have, ok := o.Interfaces[name]
		if ok && done[have.Link.Index] {
			continue
		}
		done[have.Link.Index] = ok
		if !ok {
			p.note("%s: there is no such interface; only its state file goes", name)
			p.records[name] = nil
			continue
		}
		if have.as != have.Link.Name {
			p.note("%s: it was set up when its name was %s", have.Link.Name, have.as)
		}
		if !slices.Contains(p.clear, have.as) {
			p.clear = append(p.clear, have.as)
		}
		p.clearInterface(have)
	}
	p.clearMarks(p.clear, o)
	p.finish()
	return p
}

func (p *Plan) clearInterface(have present) {
	name := have.Link.Name
	if r := have.record; r != nil {
		p.records[have.as] = nil
		if b := r.Before; r.Link == have.Link.Index && have.Root.ours() && !b.whole() {
			p.note("%s: %v, which was at the root before, had more to it than can be put back: the kernel's default comes there", name, b)
		}
	}
	for _, s := range []struct {
		slot string
		have stand
		to   stand
	}{{slotIngress, have.Ingress, stand{}}, {slotRoot, have.Root, have.before()}} {
		switch {
		case s.slot == slotIngress && s.have.damaged() && !have.traces: // only the record says so
		case s.have.ours():
			p.place(have.as, have, s.slot, s.have, s.to)
		case s.have.foreign() && !s.have.equal(s.to):
			p.note("%s: the %s is %v, which is not ours and stays", name, s.slot, s.have)
		}
	}
}

// clearMarks takes names out of the table, and the table away with the last.
func (p *Plan) clearMarks(names []string, o Observed) {
	if o.Denied != nil || o.NoMarks != nil || o.marks == nil && !o.Marks.Present {
		return
	}
	if o.marks == nil {
		p.placeMarks(o, nil, nil) // ours by its mark only: nobody knows whose interfaces
		return
	}
	from := o.marks.Config
	to := from
	to.Interfaces = slices.DeleteFunc(slices.Clone(from.Interfaces), func(n string) bool { return slices.Contains(names, n) })
	if len(to.Interfaces) == 0 {
		p.placeMarks(o, &from, nil)
		return
	}
	p.placeMarks(o, &from, &to)
}

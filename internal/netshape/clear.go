package netshape

import "slices"

// MakeClear plans the way back: what stood before, or the kernel's default, at
// each of names; no marks for them. What others put there since then stays. An
// interface that is gone took everything with it. It is pure.
func MakeClear(names []string, o Observed) Plan {
	p := Plan{clear: names, records: map[string]*record{}, boot: o.boot}
	p.refuseGeneral(Desired{}, o)
	for _, name := range names {
		have, ok := o.Interfaces[name]
		if !ok {
			p.note("%s: there is no such interface; only its state file goes", name)
			p.records[name] = nil
			continue
		}
		p.clearInterface(name, have)
	}
	p.clearMarks(names, o)
	p.finish()
	return p
}

func (p *Plan) clearInterface(name string, have present) {
	if have.record != nil {
		p.records[name] = nil
	}
	for _, s := range []struct {
		slot string
		have stand
		to   stand
	}{{slotIngress, have.Ingress, stand{}}, {slotRoot, have.Root, have.before()}} {
		switch {
		case s.have.ours():
			p.place(name, have, s.slot, s.have, s.to)
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

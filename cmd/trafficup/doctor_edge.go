package main

import (
	"io/fs"
	"slices"
	"strings"

	"trafficup/internal/doctor"
	"trafficup/internal/netshape"
)

// shapes tells that the configuration is for shaping.
func (d *examination) shapes() bool { return len(d.c.Netshape.Interfaces) > 0 }

// machine is what netshape would work on.
func (d *examination) machine() (*netshape.Machine, error) {
	return (&netshapeOptions{dir: netshape.DefaultDir}).shaper(d.sys)
}

// kernel tells what shaping needs, asked for as netshape asks. root is /.
func (d *examination) kernel(root fs.FS) []doctor.Finding {
	m, err := d.machine()
	if err != nil {
		return []doctor.Finding{{Result: doctor.Failed, What: "kernel", Message: err.Error(), Do: "run it on the machine that has the uplink"}}
	}
	has, err := m.Support()
	if err != nil {
		return []doctor.Finding{{Result: doctor.Failed, What: "kernel", Message: err.Error(), Do: "see whether tc qdisc show and nft list ruleset work here"}}
	}
	s := doctor.Shaping{Denied: has.Denied, NoMarks: has.NoMarks, Contained: m.Contained}
	for _, k := range has.Missing {
		s.Missing = append(s.Missing, string(k))
	}
	binds := slices.ContainsFunc(d.paths, func(p examined) bool { return p.setup.Interface != "" })
	all := doctor.Edge(root, s, binds)
	if d.switches() && !d.shapes() { // what shaping needs is nothing to failover
		all = slices.DeleteFunc(all, func(f doctor.Finding) bool { return f.What == "kernel module" })
	}
	return all
}

// plan tells what netshape plan would refuse or note. Rights are told of already.
func (d *examination) plan() (all []doctor.Finding) {
	const what = "plan"
	if !d.shapes() {
		return nil
	}
	_, p, err := (&netshapeOptions{dir: netshape.DefaultDir}).proposal(d.sys)
	if err != nil {
		_, hint := explain(err)
		return []doctor.Finding{{Result: doctor.Failed, What: what, Message: err.Error(), Do: hint}}
	}
	for _, r := range p.Refusals {
		if r.Code != netshape.CodeNoPermission {
			all = append(all, doctor.Finding{Result: doctor.Failed, What: what, Message: "refused: " + r.Text, Do: r.Hint})
		}
	}
	for _, n := range p.Notes {
		all = append(all, doctor.Finding{Result: doctor.Warning, What: what, Message: n, Do: "trafficup netshape plan shows all of it"})
	}
	if len(p.Refusals) == 0 {
		all = append(all, doctor.Finding{Result: doctor.OK, What: what, Message: "netshape: " + p.Summary()})
	}
	return all
}

// neighbours tells which programs of this machine would undo what netshape is to
// set up by the configuration. root is /.
func (d *examination) neighbours(root fs.FS) (all []doctor.Finding) {
	if !d.shapes() {
		return nil
	}
	desired, _ := new(netshapeOptions).desired(d.c) // of its mistakes the check of the configuration tells
	for _, n := range netshape.Coexist(root, desired) {
		message := strings.Join([]string{n.Name, n.Interface, n.Text}, ": ")
		if n.Interface == "" {
			message = n.Name + ": " + n.Text
		}
		all = append(all, doctor.Finding{Result: doctor.Warning, What: "neighbour", Message: message, Do: n.Do})
	}
	if all == nil {
		all = []doctor.Finding{{Result: doctor.OK, What: "neighbours", Message: "nobody is set up to shape the same interfaces"}}
	}
	return all
}

package main

import (
	"slices"

	"trafficup/internal/netshape"
	"trafficup/internal/tc"
)

// htbMachine is this machine with a kernel that needs no sch_fq_codel: below an
// htb there is the kernel's own queue, and fq_codel is what is read back.
func htbMachine(dir, keep string, args ...string) (*netshape.Machine, error) {
	m, err := localMachine(dir, keep, args...)
	if err == nil {
		m.Kernel = htbKernel{m.Kernel}
	}
	return m, err
}

type htbKernel struct{ netshape.Kernel }

func (k htbKernel) Missing(kinds []tc.Kind) ([]tc.Kind, error) {
	missing, err := k.Kernel.Missing(kinds)
	return slices.DeleteFunc(missing, func(k tc.Kind) bool { return k == tc.KindFqCodel }), err
}

func (k htbKernel) SetRoot(link int, s tc.Shaper) error {
	return k.Kernel.SetRoot(link, withoutLeaves(s))
}

func (k htbKernel) SetIngress(link int, ifb string, s tc.Shaper) error {
	return k.Kernel.SetIngress(link, ifb, withoutLeaves(s))
}

func (k htbKernel) Qdiscs(link int) ([]tc.Qdisc, error) {
	list, err := k.Kernel.Qdiscs(link)
	for i, q := range list {
		if h := q.Shaper.HTB; h.FIFO {
			want, err := netshape.Parse(netshape.Spec{Name: "x", Kind: netshape.KindFqCodel, Up: netshape.FormatRate(h.Rate)})
			if err != nil {
				return nil, err
			}
			want.Root.HTB.Tins = h.Tins
			list[i].Shaper = want.Root
		}
	}
	return list, err
}

func withoutLeaves(s tc.Shaper) tc.Shaper {
	s.HTB.FIFO = s.Kind == tc.KindHTB
	return s.Normal()
}

package main

import (
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"trafficup/internal/doctor"
	"trafficup/internal/edge"
)

// targetWarnings are what is not wise about the targets, by the configuration alone.
func (s failoverSetup) targetWarnings() (all []string) {
	kinds, nets := map[string]int{}, map[netip.Prefix][]string{}
	for n, t := range s.edgeTargets() {
		kinds[t.Class]++
		a := s.targets[n].Addr.Addr()
		bits := 24
		if a.Is6() {
			bits = 48
		}
		if net, err := a.Prefix(bits); err == nil && !slices.Contains(nets[net], a.String()) {
			nets[net] = append(nets[net], a.String())
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		if kinds[kind] == 1 {
			all = append(all, fmt.Sprintf("failover.targets has one of %s only: when it is gone, all uplinks look dead; add one in another network", kind))
		}
	}
	for _, net := range slices.SortedFunc(maps.Keys(nets), netip.Prefix.Compare) {
		if len(nets[net]) > 1 {
			all = append(all, fmt.Sprintf("failover.targets: %s are in one network (%v), and go together; write one of another", strings.Join(nets[net], ", "), net))
		}
	}
	if len(nets) == 1 && len(s.targets) > 1 {
		for net := range nets {
			all = append(all, fmt.Sprintf("failover.targets: all are in %v: when that is gone, all uplinks look dead; write some of other networks", net))
		}
	}
	return all
}

// judged is what doctor says of this machine for failover. root is /.
func (c Config) judged(s failoverSetup, seen edge.Sight, root fs.FS) []doctor.Finding {
	f := doctor.Failover{
		Layout: s.layout, Targets: s.targets, Cuts: c.Failover.FlushFailover >= 0 || c.Failover.FlushFailback >= 0,
		Kernel: seen.Kernel, Touches: seen.Touches, Offloads: seen.Offloads, NoMarks: seen.NoMarks, NoCuts: seen.NoCuts,
	}
	for _, u := range s.decide.Uplinks {
		f.Metered = append(f.Metered, u.Metered)
	}
	return f.Look(root)
}

// warnFailover tells what the machine has against failover, once, at its start. A
// part that is not well is no reason not to begin: it may get well.
func (sys *system) warnFailover(s failoverSetup, root fs.FS) {
	seen, err := edge.See(sys.soft)
	if err != nil {
		return // the loop says so, and tries again
	}
	for _, f := range sys.config.judged(s, seen, root) {
		if f.Result != doctor.OK {
			sys.warn(f.What + ": " + f.Message)
			sys.note("hint: " + f.Do)
		}
	}
}

package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strings"

	"trafficup/internal/dscpmark"
	"trafficup/internal/probe"
	"trafficup/internal/route"
)

// Failover is what failover would work with: what is configured, and what this
// machine's kernel says.
type Failover struct {
	Layout  route.Layout // as configured
	Metered []bool       // of each uplink: its traffic is paid for
	Targets []probe.Target
	Cuts    bool // connections are to be cut after some switches

	Kernel   route.Kernel
	Touches  []dscpmark.Touch   // who else changes the marks of packets
	Offloads []dscpmark.Offload // who takes packets past routes
	NoMarks  error              // why these two cannot be told; nil: they are
	NoCuts   error              // why no connection can be cut; nil: they can
}

// Look finds what failover could not work with, what undoes what it does, and what
// it would disturb. root is /. Other programs are found by their files, and by what
// they did to the kernel.
func (f Failover) Look(root fs.FS) []Finding {
	filled, found := f.Layout.Fill(f.Kernel)
	filled = filled.Numbered()
	return slices.Concat(
		f.uplinks(root, filled, found), f.refused(filled), f.metrics(root, filled), f.reverse(root, filled),
		f.ping(root), f.marks(root, filled), f.numbers(root), f.flows(root), f.beyond(filled),
		f.networkd(root), f.networkManager(root), f.others(root),
	)
}

// uplinks tells of each uplink whether it has a way out.
func (f Failover) uplinks(root fs.FS, filled route.Layout, found []route.Discovery) (all []Finding) {
	none := true
	for i, u := range filled.Uplinks {
		d, what := found[i], "uplink "+u.Name
		var ways []string
		for _, way := range []struct{ source, gateway netip.Addr }{{u.Source4, u.Gateway4}, {u.Source6, u.Gateway6}} {
			if !way.source.IsValid() || way.source.Is6() && !f.Layout.V6 || !u.Has(way.source.Is6()) {
				continue
			}
			text := fmt.Sprintf("%v by %v", way.source, way.gateway)
			if !way.gateway.IsValid() {
				text = way.source.String()
			}
			ways = append(ways, text)
		}
		if len(ways) > 0 && d.Up && d.Carrier && !errors.Is(d.Err4, route.ErrVRF) {
			none = false
			all = append(all, ok(what, "%s: %s", u.Interface, strings.Join(append(ways, d.Notes...), "; ")))
			continue
		}
		err := d.Err4
		if err == nil {
			err = errors.New(u.Interface + ": no way out")
		}
		all = append(all, warning(what, f.repair(root, u, err), "%v", err))
	}
	for i := range all {
		if none {
			all[i].Result = Failed
		}
	}
	return all
}

// repair is what gives an uplink its way out.
func (f Failover) repair(root fs.FS, u route.Uplink, err error) string {
	name := u.Interface
	switch {
	case errors.Is(err, route.ErrNoInterface):
		var there []string
		for _, l := range f.Kernel.Links {
			if l.Name != "lo" {
				there = append(there, l.Name)
			}
		}
		return fmt.Sprintf("plug it in, or write the right interface of %s to failover.uplinks: there are %s", u.Name, strings.Join(there, ", "))
	case errors.Is(err, route.ErrVRF):
		return fmt.Sprintf("ip link set %s nomaster", name)
	case errors.Is(err, route.ErrDown):
		return fmt.Sprintf("ip link set %s up", name)
	case errors.Is(err, route.ErrNoCarrier):
		return fmt.Sprintf("see to its cable, or to what is at the other end: ip -s link show %s", name)
	case errors.Is(err, route.ErrNoGateway):
		for _, r := range f.defaults() {
			if r.Metric == 0 && r.Interface != name && !r.Dst.Addr().Is6() {
				return fmt.Sprintf("the default by %s has metric 0, beside which no other of that metric can be: %s", r.Interface, f.setMetric(root, name, 200))
			}
		}
		return fmt.Sprintf("ask for an address again: %s; or, where nothing sets a default by it, write gateway: ADDRESS to %s in failover.uplinks", f.renew(root, name), u.Name)
	}
	return "ask for an address: " + f.renew(root, name)
}

// refused tells what a plan would refuse or warn of.
func (f Failover) refused(filled route.Layout) (all []Finding) {
	const what = "routes"
	p := filled.Plan(f.Kernel)
	for _, r := range p.Refusals {
		switch {
		case r.Kind == route.LowMetric || r.Kind == route.InVRF: // told of with the metrics and the uplinks
		case r.Kind == route.ForeignMark:
			all = append(all, warning(what, r.Fix, "%s: no rule leads probes of %s to their table", r.Text, r.Uplink))
		case r.Uplink != "": // the others do their work
			all = append(all, warning(what, r.Fix, "%s: failover goes on without %s", r.Text, r.Uplink))
		default:
			all = append(all, failed(what, r.Fix, "%s: failover changes nothing", r.Text))
		}
	}
	for _, w := range p.Warnings {
		all = append(all, warning(what, w.Fix, "%s", w.Text))
	}
	if len(all) == 0 && !f.Layout.Simple {
		all = append(all, ok(what, "nobody else uses rules %d to %d, tables %d to %d or protocol %d", f.Layout.FirstRule, f.Layout.FirstRule+12,
			f.Layout.ActiveTable, f.Layout.FirstTable+len(filled.Uplinks)-1, f.Layout.Protocol))
	}
	return all
}

// defaults are those of others in main, by interfaces of uplinks or not.
func (f Failover) defaults() []route.Route {
	return slices.DeleteFunc(slices.Clone(f.Kernel.Routes), func(r route.Route) bool {
		return r.Table != route.MainTable || r.Dst.Bits() != 0 || r.Protocol == f.Layout.Protocol || r.Interface == ""
	})
}

// beyond finds targets that are asked on the uplink itself, and so prove nothing of
// what is beyond it.
func (f Failover) beyond(filled route.Layout) (all []Finding) {
	for _, t := range f.Targets {
		a := t.Addr.Addr()
		for _, u := range filled.Uplinks {
			do := "write a target beyond the provider in its place, to failover.targets"
			switch {
			case a == u.Gateway4 || a == u.Gateway6:
				all = append(all, warning("targets", do, "%v is the gateway of %s: it answers when nothing behind it does", t, u.Name))
			case slices.ContainsFunc(u.Connected, func(p netip.Prefix) bool { return p.Contains(a) && p.Bits() > 0 }):
				all = append(all, warning("targets", do, "%v is in the subnet of %s itself: it answers when nothing beyond does, and not at all by another uplink", t, u.Name))
			}
		}
	}
	return all
}

package route

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Plan is what there is to do, in an order that keeps traffic flowing whichever
// step is the last one done: a switch first, so that trouble with another uplink
// does not hold it up; then the tables, then the rules that lead to them; what is
// not desired is removed the other way round.
type Plan struct {
	Steps    []Step
	Refusals []Refusal // if any, there are no steps
	Warnings []Warning
}

// Warning is what does not keep a plan from being done.
type Warning struct {
	Text string
	Fix  string // what to do
}

func (w Warning) String() string { return w.Text + "; " + w.Fix }

// Err returns the refusals as one error that wraps [ErrRefused], or nil.
func (p Plan) Err() error {
	if len(p.Refusals) == 0 {
		return nil
	}
	all := make([]error, len(p.Refusals))
	for i, r := range p.Refusals {
		all[i] = r
	}
	return fmt.Errorf("%w: %w", ErrRefused, errors.Join(all...))
}

// String returns the steps, one a line.
func (p Plan) String() string {
	var b strings.Builder
	for _, s := range p.Steps {
		fmt.Fprintln(&b, s)
	}
	return b.String()
}

// Plan compares the layout with what the kernel has. Once the steps are done the
// next plan is empty, if nobody else changes anything.
func (l Layout) Plan(k Kernel) (p Plan) {
	l = l.Numbered()
	for i := range l.Uplinks {
		if link, ok := k.link(l.Uplinks[i].Interface); ok && l.Uplinks[i].Index == 0 {
			l.Uplinks[i].Index = link.Index
		}
	}
	if p.Refusals = l.refusals(k); len(p.Refusals) > 0 {
		return p
	}
	p.Warnings = l.warnings(k)
	routes, rules := l.all(l.families(k))
	kept := func(r Route) bool { return l.Active == "" && l.isActive(r) }
	p.Steps = steps(l.claimed(k), l.Protocol, routes, rules, kept)
	return p
}

// families are those that are looked after: whether IPv6, of each.
func (l Layout) families(k Kernel) []bool {
	if l.V6 && k.IPv6 {
		return []bool{false, true}
	}
	return []bool{false}
}

// all is what is desired of families, the switch of both before all others.
func (l Layout) all(families []bool) (routes []Route, rules []Rule) {
	for _, v6 := range families {
		r, s := l.desired(v6)
		routes, rules = append(routes, r...), append(rules, s...)
	}
	slices.SortStableFunc(routes, func(a, b Route) int { return order(l.isActive(a), l.isActive(b)) })
	return routes, rules
}

// claimed is the kernel with what stands in the place of ours taken for it, so that
// it is replaced.
func (l Layout) claimed(k Kernel) Kernel {
	for i, r := range k.Routes {
		if l.overwritten(k, r) {
			k.Routes = slices.Clone(k.Routes)
			k.Routes[i].Protocol = l.Protocol
		}
	}
	return k
}

// overwritten tells whether a route of somebody else's stands where the active
// default does, with our rule leading there: the table is ours then, and a hand or
// a script replaced what was in it, which the kernel allows whatever the protocol.
func (l Layout) overwritten(k Kernel, r Route) bool {
	return l.Active != "" && !l.Simple && r.Protocol != l.Protocol && l.isActive(r) && l.leads(k, r.v6())
}

// leads tells whether our rule leads a family to the active table.
func (l Layout) leads(k Kernel, v6 bool) bool {
	return slices.ContainsFunc(k.Rules, func(own Rule) bool {
		return own.Protocol == l.Protocol && own.V6 == v6 && own.Table == l.ActiveTable && own.Priority == l.activeRule()
	})
}

// Switch returns what a refused plan may do all the same: have the tables stand to
// which rules of ours lead, or only the active default where that stands. What is the
// matter elsewhere is no reason to stay on an uplink that is dead, or on none.
func (l Layout) Switch(k Kernel) (p Plan) {
	if l = l.Numbered(); len(l.Contradictions()) > 0 {
		return p
	}
	k = l.claimed(k)
	routes, _ := l.all(l.families(k))
	all, _ := routeSteps(k, l.Protocol, routes)
	for _, s := range all {
		foreign := slices.ContainsFunc(k.Routes, func(r Route) bool { return r.key() == s.Route.key() && r.Protocol != l.Protocol })
		if s.Op == Change && l.isActive(s.Route) || l.leads(k, s.Route.v6()) && !foreign {
			p.Steps = append(p.Steps, s)
		}
	}
	return p
}

// Astray tells how what the kernel has differs from the decision that an uplink is
// active; "": it does not, as far as routes of others in main and of ours go.
func (l Layout) Astray(k Kernel) string {
	u, ok := l.active()
	for _, v6 := range l.families(k) {
		if !ok || !u.Has(v6) {
			continue
		}
		place := l.activePlace(v6)
		var first *Route
		for i, r := range k.Routes {
			if r.Table == place.table && r.isDefault() && r.v6() == v6 && (first == nil || r.Metric < first.Metric) {
				first = &k.Routes[i]
			}
		}
		family := map[bool]string{false: "IPv4", true: "IPv6"}[v6]
		switch {
		case !l.Simple && !l.leads(k, v6):
			return fmt.Sprintf("of %s no rule leads to table %d", family, l.ActiveTable)
		case first == nil:
			return fmt.Sprintf("of %s there is no default in table %d", family, place.table)
		case first.Interface != u.Interface:
			return fmt.Sprintf("%s leaves by: %v", family, *first)
		}
	}
	return ""
}

// Carries is the place of the uplink by which the active default of ours leads; -1:
// there is none.
func (l Layout) Carries(k Kernel) int {
	for _, r := range k.Routes {
		i := slices.IndexFunc(l.Uplinks, func(u Uplink) bool { return u.Interface == r.Interface })
		if i >= 0 && r.Protocol == l.Protocol && l.isActive(r) {
			return i
		}
	}
	return -1
}

// Removal returns the steps that remove everything of ours.
func (l Layout) Removal(k Kernel) Plan {
	k.Routes = slices.DeleteFunc(slices.Clone(k.Routes), func(r Route) bool { return !l.owns(r) })
	k.Rules = slices.DeleteFunc(slices.Clone(k.Rules), func(r Rule) bool { return !l.ownsRule(r) })
	return Plan{Steps: steps(k, l.Protocol, nil, nil, func(Route) bool { return false })}
}

// Turns tells whether a plan sets the active default, which another one was.
func (l Layout) Turns(p Plan) bool {
	return slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Op != Delete && !s.isRule() && l.isActive(s.Route) })
}

func (l Layout) isActive(r Route) bool { return r.key() == l.activePlace(r.v6()) }

// order puts what is true first.
func order(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

func steps(k Kernel, protocol uint8, routes []Route, rules []Rule, kept func(Route) bool) []Step {
	all, good := routeSteps(k, protocol, routes)
	all = append(all, ruleSteps(k, protocol, rules)...)
	for _, r := range k.Routes {
		if r.Protocol == protocol && !good[r] && !kept(r) {
			all = append(all, Step{Op: Delete, Route: r})
		}
	}
	return all
}

// routeSteps adds and changes. good are those of the kernel's that stay, or are replaced.
func routeSteps(k Kernel, protocol uint8, routes []Route) (all []Step, good map[Route]bool) {
	have := map[routeKey][]Route{}
	for _, r := range k.Routes {
		if r.Protocol == protocol {
			have[r.key()] = append(have[r.key()], r)
		}
	}
	good = map[Route]bool{}
	for _, r := range routes {
		switch there := have[r.key()]; {
		case len(there) == 0:
			all = append(all, Step{Op: Add, Route: r})
		case slices.Contains(there, r):
			good[r] = true
		default:
			for i, old := range there { // the first is replaced, and with it the other next hops of a route
				good[old] = i == 0 || old.Odd || good[old]
			}
			all = append(all, Step{Op: Change, Route: r})
		}
	}
	return all, good
}

func ruleSteps(k Kernel, protocol uint8, rules []Rule) (all []Step) {
	var old []Rule
	for _, r := range k.Rules {
		if r.Protocol == protocol && !slices.Contains(rules, r) {
			old = append(old, r)
		}
	}
	for _, r := range rules {
		if !slices.Contains(k.Rules, r) {
			all = append(all, Step{Op: Add, Rule: r})
		}
	}
	slices.SortStableFunc(old, func(a, b Rule) int { return b.Priority - a.Priority })
	for _, r := range old {
		all = append(all, Step{Op: Delete, Rule: r})
	}
	return all
}

package route

import (
	"cmp"
	"fmt"
	"strings"
)

// warnings names rules of others that ours leave nothing but what is more specific
// than a default, and what was planned for nothing; and those that leave ours nothing.
func (l Layout) warnings(k Kernel) (all []Warning) {
	if l.Simple {
		return nil
	}
	for _, r := range k.Rules {
		if r.Protocol != l.Protocol && r.Priority > l.activeRule() && r.Priority < 32766 && (l.V6 || !r.V6) {
			all = append(all, Warning{fmt.Sprintf("rule of somebody else's behind ours is asked only while there is no active default: %v", r),
				fmt.Sprintf("if it is to decide, give it a priority below %d where it is set up", l.Lowest())})
		}
	}
	for _, v6 := range l.families(k) {
		var robbed []Uplink
		var by Rule
		for _, u := range l.Uplinks {
			if r, ok := l.robber(k, u, v6); ok {
				robbed, by = append(robbed, u), r
			}
		}
		if len(robbed) > 0 {
			all = append(all, l.robbery(by, robbed))
		}
	}
	return all
}

// robber is a rule of somebody else's before ours that leads an uplink's probes to a
// default, unless one before it leads them to their table.
func (l Layout) robber(k Kernel, u Uplink, v6 bool) (Rule, bool) {
	source, _ := u.way(v6)
	for _, r := range k.Rules {
		if r.V6 != v6 || r.Priority >= l.lowestRule() || r.Protocol == l.Protocol || !source.IsValid() || !r.takes(u.Mark, source) {
			continue
		}
		if r.Table == u.Table {
			break
		}
		for _, d := range k.Routes {
			if d.Table == r.Table && d.isDefault() && d.v6() == v6 {
				return r, true
			}
		}
	}
	return Rule{}, false
}

// robbery says what to do about it: the tunnel is most likely wanted for all else, and
// what it wraps is sent by the active uplink. Answers bear no mark, and where the
// filter of reverse paths is strict they would have to come by the tunnel.
func (l Layout) robbery(by Rule, robbed []Uplink) Warning {
	var names, rules []string
	before := cmp.Or((by.Priority-1)/1000*1000, by.Priority-1) // what has no number gets one that differs each time
	for _, u := range robbed {
		names = append(names, u.Name)
		rules = append(rules, Step{Op: Add, Rule: Rule{V6: by.V6, Priority: before, Mark: u.Mark, Mask: l.Mask, Table: u.Table, Protocol: 4}}.Command())
		if !by.V6 {
			rules = append(rules, fmt.Sprintf("sysctl -w net/ipv4/conf/%s/rp_filter=2", u.Interface))
		}
	}
	do := "where it is set up, add before it: " + strings.Join(rules, " && ")
	if by.Not && by.Mask == wholeMark && by.Mark == uint32(by.Table) {
		do = "it is one of wg-quick: write Table = off to [Interface] of its file, and routes of your own; or PostUp = " + strings.Join(rules, "; ")
	}
	return Warning{fmt.Sprintf("rule before ours takes the probes of %s: %v", strings.Join(names, ", "), by), do}
}

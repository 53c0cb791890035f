package route

import (
	"fmt"
	"strings"
)

// Op is what a step does.
type Op byte

// The operations.
const (
	Add    Op = '+'
	Change Op = '~'
	Delete Op = '-'
)

// Step adds, changes or removes one route or rule. Steps can be compared.
type Step struct {
	Op    Op
	Route Route // or
	Rule  Rule
}

func (s Step) isRule() bool { return s.Rule != Rule{} }

// String returns the step as people read it.
func (s Step) String() string { return string(rune(s.Op)) + " " + s.Command() }

// Command returns a command that does the same.
func (s Step) Command() string {
	kind, what, v6 := "route", s.Route.String(), s.isRule() && s.Rule.V6 || !s.isRule() && s.Route.v6()
	if s.isRule() {
		kind, what = "rule", s.Rule.String()
	}
	verb := map[Op]string{Add: "add", Change: "replace", Delete: "del"}[s.Op]
	family := ""
	if v6 {
		family = " -6"
	}
	return fmt.Sprintf("ip%s %s %s %s", family, kind, verb, what)
}

var types = [...]string{"", "", "local", "broadcast", "anycast", "multicast", "blackhole", "unreachable", "prohibit", "throw"}

// String returns the route as `ip route` takes it.
func (r Route) String() string {
	var b strings.Builder
	if r.Type != unicast && int(r.Type) < len(types) {
		b.WriteString(types[r.Type] + " ")
	}
	if r.isDefault() {
		b.WriteString("default")
	} else {
		b.WriteString(r.Dst.String())
	}
	if r.Gateway.IsValid() {
		fmt.Fprintf(&b, " via %v", r.Gateway)
	}
	if r.Index != 0 {
		fmt.Fprintf(&b, " dev %s", r.Interface)
	}
	if r.Source.IsValid() {
		fmt.Fprintf(&b, " src %v", r.Source)
	}
	fmt.Fprintf(&b, " table %d proto %d", r.Table, r.Protocol)
	if r.Metric != 0 {
		fmt.Fprintf(&b, " metric %d", r.Metric)
	}
	if r.OnLink {
		b.WriteString(" onlink")
	}
	for _, m := range []struct {
		name string
		n    uint32
	}{{"mtu", r.Metrics.MTU}, {"advmss", r.Metrics.AdvMSS}, {"hoplimit", r.Metrics.HopLimit}, {"initcwnd", r.Metrics.InitCwnd}} {
		if m.n != 0 {
			fmt.Fprintf(&b, " %s %d", m.name, m.n)
		}
	}
	return b.String()
}

// String returns the rule as `ip rule` takes it.
func (r Rule) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "pref %d", r.Priority)
	if r.Not {
		b.WriteString(" not")
	}
	if r.From.IsValid() {
		fmt.Fprintf(&b, " from %v", r.From)
	}
	switch r.Mask {
	case 0:
	case wholeMark:
		fmt.Fprintf(&b, " fwmark %#x", r.Mark)
	default:
		fmt.Fprintf(&b, " fwmark %#x/%#x", r.Mark, r.Mask)
	}
	fmt.Fprintf(&b, " lookup %d", r.Table)
	if r.Suppress {
		b.WriteString(" suppress_prefixlength 0")
	}
	fmt.Fprintf(&b, " protocol %d", r.Protocol)
	return b.String()
}

package route

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func filledLayout(active string, k Kernel) Layout {
	l, _ := desk(active).Fill(k)
	return l.Numbered()
}

// A mark of somebody else's costs an uplink the rule for it, and nothing more.
func TestAroundAMark(t *testing.T) {
	k := after(machine(), filled(desk("a"), machine()).Steps)
	k.Rules = append(slices.Clone(k.Rules), Rule{Priority: 32000, Mark: 0x100, Mask: wholeMark, Table: MainTable, Protocol: 3})
	l := filledLayout("a", k)
	p := l.Plan(k)
	if len(p.Refusals) != 1 || p.Refusals[0].Uplink != "a" {
		t.Fatalf("refused is %v", p.Refusals)
	}
	want := []string{"- ip rule del pref 20998 fwmark 0x100 lookup 8711 protocol 219", "- ip -6 rule del pref 20998 fwmark 0x100 lookup 8711 protocol 219"}
	if got := commands(l.Around(p.Refusals[0]).Plan(k)); !slices.Equal(got, want) {
		t.Errorf("the plan is %q, want %q", got, want)
	}
}

// Of two uplinks in one subnet the less preferred is left out, but not the one in use.
func TestAroundASubnet(t *testing.T) {
	k := machine()
	k.Routes[2].Dst, k.Routes[4].Gateway = prefix("10.10.0.0/24"), addr("10.10.0.1")
	for active, less := range map[string]string{"": "b", "a": "b", "b": "a"} {
		l := filledLayout(active, k)
		p := l.Plan(k)
		if len(p.Refusals) != 1 || p.Refusals[0].Uplink != less {
			t.Fatalf("%s: refused is %v", active, p.Refusals)
		}
		if p = l.Around(p.Refusals[0]).Plan(k); len(p.Refusals) > 0 {
			t.Errorf("%s: refused is %v", active, p.Refusals)
		}
		if astray := l.Astray(after(k, p.Steps)); astray != "" {
			t.Errorf("%s: routes do not follow: %s", active, astray)
		}
	}
}

// A refused plan has the tables stand to which our rules lead, whatever went of them,
// and takes nobody's place.
func TestSwitchRebuilds(t *testing.T) {
	k := after(machine(), filled(desk("a"), machine()).Steps)
	k.Rules = append(slices.Clone(k.Rules), Rule{Priority: 21005, Table: 50, Protocol: 3})
	full := k
	k.Routes = slices.DeleteFunc(slices.Clone(k.Routes), func(r Route) bool { return r.Interface == "wan0" && r.Protocol == 219 })
	theirs := Route{Table: 8711, Dst: prefix("10.10.0.0/24"), Type: unicast, Interface: "lan0", Index: 2, Protocol: 3}
	k.Routes = append(k.Routes, theirs)
	l := filledLayout("a", k)
	if p := l.Plan(k); len(p.Refusals) != 2 {
		t.Fatalf("the plan is\n%v", p)
	}
	p := l.Switch(k)
	if len(p.Steps) != 5 || slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Route.key() == theirs.key() }) {
		t.Errorf("the switch is\n%v", p)
	}
	k = after(k, p.Steps)
	for _, r := range full.Routes {
		if r.Protocol == 219 && r.key() != theirs.key() && !slices.Contains(k.Routes, r) {
			t.Errorf("%v is missing", r)
		}
	}
	if astray := l.Astray(k); astray != "" {
		t.Errorf("routes do not follow: %s", astray)
	}
	l.FirstRule = 0
	if p := l.Switch(k); !p.empty() {
		t.Errorf("a layout that contradicts itself is followed:\n%v", p)
	}
}

func TestAstray(t *testing.T) {
	k := after(machine(), filled(desk("a"), machine()).Steps)
	l := filledLayout("a", k)
	simple := l
	simple.Simple = true
	for name, c := range map[string]struct {
		l      Layout
		change func(*Kernel)
		want   string
	}{
		"it follows":           {l, func(*Kernel) {}, ""},
		"nothing was decided":  {filledLayout("", k), func(k *Kernel) { k.Rules = nil }, ""},
		"another carries":      {filledLayout("b", k), func(*Kernel) {}, "IPv4 leaves by: default via 10.10.0.1 dev wan0"},
		"no rule":              {l, func(k *Kernel) { k.Rules = nil }, "of IPv4 no rule leads to table 8710"},
		"no default":           {l, func(k *Kernel) { k.Routes = nil }, "of IPv4 there is no default in table 8710"},
		"of IPv6 another one":  {l, func(k *Kernel) { k.Routes = slices.DeleteFunc(k.Routes, func(r Route) bool { return r.v6() }) }, "of IPv6 there is no default"},
		"simple":               {simple, func(*Kernel) {}, ""},
		"simple, by another's": {simple, func(k *Kernel) { k.Routes[3].Metric = 999 }, "IPv4 leaves by: default via 10.20.0.1 dev wan1"},
	} {
		k := k
		k.Routes = slices.Clone(k.Routes)
		c.change(&k)
		if got := c.l.Astray(k); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// What others gave our protocol is not taken away with ours.
func TestRemovalLeavesOthers(t *testing.T) {
	k := after(machine(), filled(desk("a"), machine()).Steps)
	k.Rules, k.Routes = slices.Clone(k.Rules), slices.Clone(k.Routes)
	k.Rules = append(k.Rules, Rule{Priority: 100, Table: 300, Protocol: 219}, Rule{Priority: 101, Table: MainTable, Protocol: 219}, Rule{Priority: 21001, Table: 300, Protocol: 219})
	k.Routes = append(k.Routes, Route{Table: 300, Dst: prefix("10.77.0.0/16"), Protocol: 219}, Route{Table: MainTable, Dst: prefix("10.78.0.0/16"), Protocol: 219},
		Route{Table: MainTable, Dst: defaultOf(false), Metric: 7, Protocol: 219}, Route{Table: MainTable, Dst: defaultOf(false), Metric: 5, Protocol: 219})
	left := after(k, desk("a").Removal(k).Steps)
	ours := func(k Kernel) int {
		return len(k.Rules) + len(k.Routes) - len(notOurs(k))
	}
	if n := ours(left); n != 6 {
		t.Errorf("%d of protocol 219 are left, want 6: %+v %+v", n, left.Rules, left.Routes)
	}
}

// What a rule in front takes of our probes is named, with a way out that is one.
func TestRobbed(t *testing.T) {
	tunnel := func(k *Kernel) {
		k.Rules = append([]Rule{{Priority: 20996, Table: MainTable, Suppress: true, Protocol: 3}, {Priority: 20997, Not: true, Mark: 51820, Mask: wholeMark, Table: 51820, Protocol: 3}}, k.Rules...)
		k.Routes = append(k.Routes, Route{Table: 51820, Dst: defaultOf(false), Type: unicast, Interface: "wg0", Index: 9, Protocol: 3})
	}
	for name, c := range map[string]struct {
		change func(*Kernel)
		text   string
		fix    string
	}{
		"nobody":   {func(*Kernel) {}, "", ""},
		"wg-quick": {tunnel, "takes the probes of a, b: pref 20997 not fwmark 0xca6c lookup 51820", "Table = off to [Interface] of its file, and routes of your own; or PostUp = ip rule add pref 20000 fwmark 0x100 lookup 8711 protocol 4; sysctl -w net/ipv4/conf/wan0/rp_filter=2; ip rule add pref 20000 fwmark 0x200 lookup 8712 protocol 4; sysctl -w net/ipv4/conf/wan1/rp_filter=2"},
		"wg-quick, done as told": {func(k *Kernel) {
			tunnel(k)
			k.Rules = append([]Rule{{Priority: 20000, Mark: 0x100, Mask: wholeMark, Table: 8711, Protocol: 4}, {Priority: 20000, Mark: 0x200, Mask: wholeMark, Table: 8712, Protocol: 4}}, k.Rules...)
		}, "", ""},
		"a table without a default": {func(k *Kernel) { k.Rules = append([]Rule{{Priority: 5270, Table: 52, Protocol: 3}}, k.Rules...) }, "", ""},
		"a source": {func(k *Kernel) {
			k.Rules = append([]Rule{{Priority: 100, From: prefix("10.20.0.0/24"), Table: 9, Protocol: 3}}, k.Rules...)
			k.Routes = append(k.Routes, Route{Table: 9, Dst: defaultOf(false), Type: unicast, Protocol: 3})
		}, "takes the probes of b: pref 100 from 10.20.0.0/24", "add before it: ip rule add pref 99 fwmark 0x200 lookup 8712"},
	} {
		k := machine()
		c.change(&k)
		p := filled(desk("a"), k)
		if len(p.Refusals) > 0 || len(p.Warnings) != min(len(c.text), 1) {
			t.Errorf("%s: refused is %v, warnings are %q", name, p.Refusals, p.Warnings)
			continue
		}
		for _, w := range p.Warnings {
			if !strings.Contains(w.Text, c.text) || !strings.Contains(w.Fix, c.fix) {
				t.Errorf("%s: %v", name, w)
			}
		}
	}
}

// A gateway that is configured is taken, whatever DHCP says, with the address beside it.
func TestConfiguredGateway(t *testing.T) {
	k := machine()
	k.Addrs = append(k.Addrs, Addr{Index: 3, Prefix: prefix("10.30.0.5/24"), Global: true})
	k.Routes = append(k.Routes, Route{Table: MainTable, Dst: prefix("10.30.0.0/24"), Type: unicast, Interface: "wan0", Index: 3, Protocol: 2})
	k.Routes[3].Metrics.MTU = 1400
	for gateway, source := range map[string]string{"10.10.0.254": "10.10.0.2", "10.30.0.1": "10.30.0.5"} {
		l := desk("a")
		l.Uplinks[0].Gateway4 = addr(gateway)
		l, found := l.Fill(k)
		if u := l.Uplinks[0]; u.Gateway4 != addr(gateway) || u.Source4 != addr(source) || u.Metrics4.MTU != 1400 || found[0].Err4 != nil {
			t.Errorf("%s: the uplink is %+v, %v", gateway, u, found[0].Err4)
		}
		if p := l.Plan(k); len(p.Refusals) > 0 {
			t.Errorf("%s: %v", gateway, p.Refusals)
		}
	}
	l := desk("a")
	l.Uplinks[0].Gateway4 = addr("10.10.0.7")
	k.Routes = slices.Delete(slices.Clone(k.Routes), 3, 4)
	if l, found := l.Fill(k); found[0].Err4 != nil || l.Uplinks[0].Gateway4 != addr("10.10.0.7") || l.Uplinks[0].Source4 != netip.MustParseAddr("10.10.0.2") {
		t.Errorf("without a default: %+v, %v", l.Uplinks[0], found[0].Err4)
	}
}

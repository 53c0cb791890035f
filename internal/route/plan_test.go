package route

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func addr(s string) netip.Addr       { return netip.MustParseAddr(s) }
func prefix(s string) netip.Prefix   { return netip.MustParsePrefix(s) }
func kinds(p Plan) (all []Kind)      { return mapped(p.Refusals, func(r Refusal) Kind { return r.Kind }) }
func commands(p Plan) (all []string) { return mapped(p.Steps, Step.String) }

func mapped[A, B any](all []A, f func(A) B) (out []B) {
	for _, a := range all {
		out = append(out, f(a))
	}
	return out
}

// machine has two uplinks as DHCP set them up.
func machine() Kernel {
	def := func(iface string, index int, via string, metric uint32) Route {
		a := addr(via)
		return Route{Table: MainTable, Dst: defaultOf(a.Is6()), Metric: metric, Type: unicast, Gateway: a, Interface: iface, Index: index, Protocol: 16}
	}
	connected := func(iface string, index int, to string) Route {
		return Route{Table: MainTable, Dst: prefix(to), Type: unicast, Interface: iface, Index: index, Protocol: 2}
	}
	return Kernel{
		IPv6: true,
		Links: []Link{
			{Name: "lo", Index: 1, Up: true, Carrier: true}, {Name: "lan0", Index: 2, Up: true, Carrier: true},
			{Name: "wan0", Index: 3, Up: true, Carrier: true}, {Name: "wan1", Index: 4, Up: true, Carrier: true},
		},
		Addrs: []Addr{
			{Index: 3, Prefix: prefix("10.10.0.2/24"), Global: true}, {Index: 4, Prefix: prefix("10.20.0.2/24"), Global: true},
			{Index: 3, Prefix: prefix("fe80::2/64")}, {Index: 3, Prefix: prefix("2001:db8:1::2/64"), Global: true},
		},
		Routes: []Route{
			connected("lan0", 2, "10.1.0.0/24"), connected("wan0", 3, "10.10.0.0/24"), connected("wan1", 4, "10.20.0.0/24"),
			def("wan0", 3, "10.10.0.1", 100), def("wan1", 4, "10.20.0.1", 200),
			connected("wan0", 3, "2001:db8:1::/64"), connected("wan0", 3, "fe80::/64"), def("wan0", 3, "fe80::1", 1024),
		},
		Rules: []Rule{
			{Priority: 0, Table: 255, Protocol: 2}, {Priority: 32766, Table: 254, Protocol: 2}, {Priority: 32767, Table: 253, Protocol: 2},
			{V6: true, Priority: 0, Table: 255, Protocol: 2}, {V6: true, Priority: 32766, Table: 254, Protocol: 2},
		},
	}
}

func desk(active string) Layout {
	l := Default()
	l.Active = active
	l.Uplinks = []Uplink{{Name: "a", Interface: "wan0"}, {Name: "b", Interface: "wan1"}}
	return l
}

// filled is the plan for what the kernel has.
func filled(l Layout, k Kernel) Plan {
	l, _ = l.Fill(k)
	return l.Plan(k)
}

// after is the kernel when steps were done.
func after(k Kernel, steps []Step) Kernel {
	k.Routes, k.Rules = slices.Clone(k.Routes), slices.Clone(k.Rules)
	for _, s := range steps {
		switch {
		case s.isRule() && s.Op == Add:
			k.Rules = append(k.Rules, s.Rule)
		case s.isRule():
			k.Rules = slices.DeleteFunc(k.Rules, func(r Rule) bool { return r == s.Rule })
		case s.Op == Add:
			k.Routes = append(k.Routes, s.Route)
		case s.Op == Change:
			k.Routes[slices.IndexFunc(k.Routes, func(r Route) bool { return r.key() == s.Route.key() })] = s.Route
		default:
			k.Routes = slices.DeleteFunc(k.Routes, func(r Route) bool { return r == s.Route })
		}
	}
	return k
}

func TestPlanText(t *testing.T) {
	k := machine()
	want := []string{
		"+ ip route add default via 10.10.0.1 dev wan0 src 10.10.0.2 table 8710 proto 219",
		"+ ip -6 route add default via fe80::1 dev wan0 src 2001:db8:1::2 table 8710 proto 219 metric 1024",
		"+ ip route add 10.10.0.0/24 dev wan0 src 10.10.0.2 table 8711 proto 219",
		"+ ip route add default via 10.10.0.1 dev wan0 src 10.10.0.2 table 8711 proto 219",
		"+ ip route add unreachable default table 8711 proto 219 metric 4278198272",
		"+ ip route add 10.20.0.0/24 dev wan1 src 10.20.0.2 table 8712 proto 219",
		"+ ip route add default via 10.20.0.1 dev wan1 src 10.20.0.2 table 8712 proto 219",
		"+ ip route add unreachable default table 8712 proto 219 metric 4278198272",
		"+ ip -6 route add 2001:db8:1::/64 dev wan0 src 2001:db8:1::2 table 8711 proto 219 metric 1024",
		"+ ip -6 route add default via fe80::1 dev wan0 src 2001:db8:1::2 table 8711 proto 219 metric 1024",
		"+ ip -6 route add unreachable default table 8711 proto 219 metric 4278198272",
		"+ ip -6 route add unreachable default table 8712 proto 219 metric 4278198272",
		"+ ip rule add pref 20998 fwmark 0x100 lookup 8711 protocol 219",
		"+ ip rule add pref 20999 fwmark 0x200 lookup 8712 protocol 219",
		"+ ip rule add pref 21000 lookup 254 suppress_prefixlength 0 protocol 219",
		"+ ip rule add pref 21003 from 10.10.0.2/32 lookup 8711 protocol 219",
		"+ ip rule add pref 21004 from 10.20.0.2/32 lookup 8712 protocol 219",
		"+ ip rule add pref 21010 lookup 8710 protocol 219",
		"+ ip -6 rule add pref 20998 fwmark 0x100 lookup 8711 protocol 219",
		"+ ip -6 rule add pref 20999 fwmark 0x200 lookup 8712 protocol 219",
		"+ ip -6 rule add pref 21000 lookup 254 suppress_prefixlength 0 protocol 219",
		"+ ip -6 rule add pref 21003 from 2001:db8:1::2/128 lookup 8711 protocol 219",
		"+ ip -6 rule add pref 21010 lookup 8710 protocol 219",
	}
	p := filled(desk("a"), k)
	if got := commands(p); !slices.Equal(got, want) {
		t.Errorf("the plan is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	k = after(k, p.Steps)
	want = []string{
		"~ ip route replace default via 10.20.0.1 dev wan1 src 10.20.0.2 table 8710 proto 219",
		"~ ip -6 route replace unreachable default table 8710 proto 219 metric 1024",
	}
	if got := commands(filled(desk("b"), k)); !slices.Equal(got, want) {
		t.Errorf("the switch is %q, want %q", got, want)
	}
	if p := filled(desk(""), k); !p.empty() {
		t.Errorf("nothing is said of which is active, and the plan is\n%v", p)
	}
}

// empty tells whether there is nothing to do and nothing refused.
func (p Plan) empty() bool { return len(p.Steps) == 0 && len(p.Refusals) == 0 }

// What is warned of is nothing that was done.
func TestWarnings(t *testing.T) {
	k := machine()
	k.Rules = append(k.Rules, Rule{Priority: 32000, Table: 51820, Protocol: 3})
	p := filled(desk("a"), k)
	if len(p.Warnings) != 1 || len(p.Steps) == 0 {
		t.Errorf("the plan is\n%v", p)
	}
	if p = filled(desk("a"), after(k, p.Steps)); len(p.Warnings) != 1 || p.String() != "" {
		t.Errorf("nothing is to be done, and the plan is\n%v", p)
	}
}

// What sends traffic elsewhere is told from what is mended beside it.
func TestTurns(t *testing.T) {
	k := machine()
	a := filled(desk("a"), k)
	k = after(k, a.Steps)
	lost := k
	lost.Rules, lost.Routes = nil, slices.DeleteFunc(slices.Clone(k.Routes), func(r Route) bool { return r.Protocol == 219 && r.Table != 8710 })
	for name, c := range map[string]struct {
		active string
		k      Kernel
		want   bool
	}{"nothing stands": {"a", machine(), true}, "all stands": {"a", k, false}, "all else is lost": {"a", lost, false}, "another one": {"b", k, true}} {
		if p := filled(desk(c.active), c.k); desk(c.active).Turns(p) != c.want {
			t.Errorf("%s: not %v, and the plan is\n%v", name, c.want, p)
		}
	}
}

// From whatever the kernel has the plan leads to a state with nothing more to do,
// nobody else's is touched, and removal leaves nothing of ours.
func TestPlanProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := machine()
		for range rapid.IntRange(0, 12).Draw(t, "rounds") {
			l := desk(rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "active"))
			l.Simple = rapid.Bool().Draw(t, "simple")
			l.V6 = rapid.Bool().Draw(t, "v6")
			change(t, &k)
			theirs := notOurs(k)
			p := filled(l, k)
			if len(p.Refusals) > 0 {
				t.Fatalf("refused: %v", p)
			}
			part := rapid.IntRange(0, len(p.Steps)).Draw(t, "part")
			k = after(k, p.Steps[:part])
			if rest := filled(l, k); len(rest.Steps) != len(p.Steps)-part {
				t.Fatalf("after %d of\n%vthe plan is\n%v", part, p, rest)
			}
			k = after(k, p.Steps[part:])
			if got := notOurs(k); !slices.Equal(got, theirs) {
				t.Fatalf("others had %q, have %q", theirs, got)
			}
		}
		k = after(k, desk("a").Removal(k).Steps)
		if p := desk("a").Removal(k); !p.empty() {
			t.Fatalf("removal leaves\n%v", p)
		}
	})
}

// change takes away and adds what the kernel and its users do.
func change(t *rapid.T, k *Kernel) {
	k.Routes = slices.DeleteFunc(slices.Clone(k.Routes), func(r Route) bool {
		return r.Protocol == 219 && rapid.IntRange(0, 3).Draw(t, "route gone") == 0
	})
	k.Rules = slices.DeleteFunc(slices.Clone(k.Rules), func(r Rule) bool {
		return r.Protocol == 219 && rapid.IntRange(0, 3).Draw(t, "rule gone") == 0
	})
	k.Links, k.Addrs = slices.Clone(k.Links), slices.Clone(k.Addrs)
	k.Links[2].Up = rapid.Bool().Draw(t, "up")
	k.Addrs[0].Prefix = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 10, 0, byte(rapid.IntRange(2, 9).Draw(t, "host"))}), 24)
	k.Addrs[3].Tentative = rapid.Bool().Draw(t, "tentative")
	for i, r := range k.Routes {
		if r.Protocol == 219 && r.Type == unicast && rapid.IntRange(0, 5).Draw(t, "bent") == 0 {
			k.Routes[i].Odd = true
		}
		if r.Protocol == 16 && !r.v6() {
			b := r.Gateway.As4()
			b[3] = byte(rapid.IntRange(20, 22).Draw(t, "gateway"))
			k.Routes[i].Gateway = netip.AddrFrom4(b)
		}
	}
	if stray := rapid.IntRange(0, 9).Draw(t, "stray"); stray < 3 {
		k.Rules = append(k.Rules, Rule{V6: stray == 1, Priority: 21003 + stray, From: prefix("10.99.0.1/32"), Table: 8711, Protocol: 219})
		r := Route{Table: 8710 + stray, Dst: defaultOf(false), Metric: 9, Type: unicast, Interface: "wan1", Index: 4, Protocol: 219}
		if !slices.Contains(k.Routes, r) {
			k.Routes = append(k.Routes, r)
		}
	}
}

func notOurs(k Kernel) (all []string) {
	for _, r := range k.Routes {
		if r.Protocol != 219 {
			all = append(all, r.String())
		}
	}
	for _, r := range k.Rules {
		if r.Protocol != 219 {
			all = append(all, r.String())
		}
	}
	return all
}

package route

import (
	"slices"
	"testing"
)

// byHand is a default that somebody put in the place of the active one.
func byHand(k Kernel) Kernel {
	k.Routes = slices.Clone(k.Routes)
	i := slices.IndexFunc(k.Routes, func(r Route) bool { return r.Table == 8710 && !r.v6() })
	k.Routes[i].Protocol, k.Routes[i].Gateway, k.Routes[i].Interface, k.Routes[i].Index = 3, addr("10.20.0.1"), "wan1", 4
	return k
}

// What a hand put in the place of the active default is replaced while our rule
// leads there. Where no rule of ours does, or in another place, it is refused.
func TestOverwritten(t *testing.T) {
	k := after(machine(), filled(desk("a"), machine()).Steps)
	want := []string{"~ ip route replace default via 10.10.0.1 dev wan0 src 10.10.0.2 table 8710 proto 219"}
	if got := commands(filled(desk("a"), byHand(k))); !slices.Equal(got, want) {
		t.Errorf("the plan is %q, want %q", got, want)
	}
	if p := filled(desk(""), byHand(k)); len(p.Steps) > 0 || !slices.Equal(kinds(p), []Kind{ForeignRoute}) {
		t.Errorf("nothing is said of which is active, and the plan is\n%v", p)
	}
	for name, change := range map[string]func(*Kernel){
		"no rule of ours": func(k *Kernel) {
			k.Rules = slices.DeleteFunc(slices.Clone(k.Rules), func(r Rule) bool { return r.Priority == 21010 })
		},
		"the rule of another family only": func(k *Kernel) {
			k.Rules = slices.DeleteFunc(slices.Clone(k.Rules), func(r Rule) bool { return r.Priority == 21010 && !r.V6 })
		},
		"another metric": func(k *Kernel) {
			k.Routes[slices.IndexFunc(k.Routes, func(r Route) bool { return r.Protocol == 3 })].Metric = 7
		},
		"another table": func(k *Kernel) {
			k.Routes[slices.IndexFunc(k.Routes, func(r Route) bool { return r.Protocol == 3 })].Table = 8711
		},
	} {
		k := byHand(k)
		change(&k)
		if p := filled(desk("a"), k); !slices.Equal(kinds(p), []Kind{ForeignRoute}) {
			t.Errorf("%s: the plan is\n%v", name, p)
		}
	}
}

// What is refused does not hold up the switch of a default of ours that stands.
func TestSwitchOfARefusedPlan(t *testing.T) {
	k := after(machine(), filled(desk("a"), machine()).Steps)
	k.Rules = append(slices.Clone(k.Rules), Rule{Priority: 21005, Table: 50, Protocol: 3})
	l, _ := desk("b").Fill(k)
	if p := l.Plan(k); len(p.Refusals) != 1 {
		t.Fatalf("the plan is\n%v", p)
	}
	want := []string{
		"~ ip route replace default via 10.20.0.1 dev wan1 src 10.20.0.2 table 8710 proto 219",
		"~ ip -6 route replace unreachable default table 8710 proto 219 metric 1024",
	}
	p := l.Switch(k)
	if got := commands(p); !slices.Equal(got, want) {
		t.Errorf("the switch is %q, want %q", got, want)
	}
	if again := l.Switch(after(k, p.Steps)); !again.empty() {
		t.Errorf("there is more to do: %v", again)
	}
	l.V6 = false
	if got := commands(l.Switch(k)); !slices.Equal(got, want[:1]) {
		t.Errorf("without IPv6 the switch is %q", got)
	}
	if p := l.Switch(machine()); !p.empty() {
		t.Errorf("nothing of ours stands, and the switch is\n%v", p)
	}
	l.Active = ""
	if p := l.Switch(k); !p.empty() {
		t.Errorf("nothing is said of which is active, and the switch is\n%v", p)
	}
}

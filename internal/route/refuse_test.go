package route

import (
	"errors"
	"net/netip"
	"slices"
	"testing"
)

func TestRefusals(t *testing.T) {
	main, link := machine(), func(k *Kernel, i int) *Link { return &k.Links[i] }
	for name, c := range map[string]struct {
		change func(*Layout, *Kernel)
		want   []Kind
	}{
		"nothing":               {func(*Layout, *Kernel) {}, nil},
		"a kernel without IPv6": {func(_ *Layout, k *Kernel) { k.IPv6 = false }, nil},
		"rule among ours": {func(_ *Layout, k *Kernel) {
			k.Rules = append(k.Rules, Rule{Priority: 21001, Table: 50, Protocol: 3})
		}, []Kind{ForeignRule}},
		"rule that decides before": {func(_ *Layout, k *Kernel) {
			k.Rules = append(k.Rules, Rule{Priority: 100, Table: MainTable, Protocol: 3})
		}, []Kind{ForeignRule}},
		"rule that decides something before": {func(_ *Layout, k *Kernel) {
			k.Rules = append(k.Rules, Rule{Priority: 100, Table: MainTable, From: prefix("10.9.0.0/16")})
		}, nil},
		"rule that leads to our tables": {func(_ *Layout, k *Kernel) {
			k.Rules = append(k.Rules, Rule{Priority: 100, Table: 8712, From: prefix("10.1.0.9/32")})
		}, nil},
		"mark of a tunnel": {func(_ *Layout, k *Kernel) {
			k.Rules = append(k.Rules, Rule{Priority: 32765, Mark: 0xca6c, Mask: 0xffffffff, Table: 51820, Odd: true})
		}, nil},
		"mark of a tunnel in bits of ours": {func(l *Layout, k *Kernel) {
			l.Mask = 0x300
			k.Rules = append(k.Rules, Rule{Priority: 32765, Mark: 0xca6c, Mask: 0xffffffff, Table: 51820, Odd: true})
		}, []Kind{ForeignMark}},
		"other bits of marks": {func(_ *Layout, k *Kernel) {
			k.Rules = append(k.Rules, Rule{Priority: 1000, Mark: 0x3c00, Mask: 0x3c00, Table: 9}, Rule{Priority: 1001, Mark: 0xc000, Mask: 0xffffffff, Table: 9})
		}, nil},
		"some of our bits": {func(_ *Layout, k *Kernel) {
			k.Rules = append(k.Rules, Rule{Priority: 1000, Mark: 0x200, Mask: 0xe00, Table: 9})
		}, []Kind{ForeignMark}},
		"all marks but some, and none": {func(_ *Layout, k *Kernel) {
			k.Rules = append(k.Rules, Rule{Priority: 1000, Not: true, Mark: 0x200, Mask: 0xffffffff, Table: 9}, Rule{Priority: 1001, Mask: 0xe00, Table: 9})
		}, nil},
		"our mark to our table": {func(_ *Layout, k *Kernel) {
			k.Rules = append(k.Rules, Rule{Priority: 1000, Mark: 0x200, Mask: 0xffffffff, Table: 8712})
		}, nil},
		"our protocol in a rule for main": {func(_ *Layout, k *Kernel) {
			k.Rules = append(k.Rules, Rule{Priority: 7, Table: MainTable, Protocol: 219})
		}, []Kind{ForeignProtocol}},
		"our protocol in another default of main": {func(_ *Layout, k *Kernel) {
			k.Routes = append(k.Routes, Route{Table: MainTable, Dst: defaultOf(false), Type: unicast, Index: 3, Metric: 700, Protocol: 219})
		}, []Kind{ForeignProtocol}},
		"route in our table": {func(_ *Layout, k *Kernel) {
			k.Routes = append(k.Routes, Route{Table: 8711, Dst: defaultOf(false), Type: unicast, Index: 3, Protocol: 4})
		}, []Kind{ForeignRoute}},
		"our protocol in another table": {func(_ *Layout, k *Kernel) {
			k.Routes = append(k.Routes, Route{Table: 50, Dst: defaultOf(false), Type: unicast, Index: 3, Protocol: 219})
		}, []Kind{ForeignProtocol}},
		"our protocol in main": {func(_ *Layout, k *Kernel) {
			k.Routes = append(k.Routes, Route{Table: MainTable, Dst: prefix("10.3.0.0/16"), Type: unicast, Index: 3, Protocol: 219})
		}, []Kind{ForeignProtocol}},
		"our protocol in a rule": {func(_ *Layout, k *Kernel) {
			k.Rules = append(k.Rules, Rule{Priority: 7, Table: 50, Protocol: 219})
		}, []Kind{ForeignProtocol}},
		"the same subnet": {func(_ *Layout, k *Kernel) {
			k.Routes[2].Dst = prefix("10.10.0.0/24")
			k.Routes[4].Gateway = addr("10.10.0.1")
		}, []Kind{SameSubnet}},
		"a subnet within, around the other's gateway": {func(_ *Layout, k *Kernel) {
			k.Routes[1].Dst = prefix("10.0.0.0/8")
			k.Routes[3].Gateway = addr("10.20.0.7")
		}, []Kind{SameSubnet}},
		"a subnet within": {func(_ *Layout, k *Kernel) {
			k.Routes[1].Dst = prefix("10.0.0.0/8")
		}, nil},
		"the same other end": {func(_ *Layout, k *Kernel) {
			for i := range 2 {
				k.Routes[1+i].Dst = prefix("10.64.0.1/32")
				k.Routes[3+i].Gateway = netip.Addr{}
				link(k, 2+i).PointToPoint = true
			}
		}, nil},
		"part of a VRF": {func(_ *Layout, k *Kernel) {
			link(k, 3).Master = "bond0"
			k.Links = append(k.Links, Link{Name: "bond0", Index: 8, Master: "red"}, Link{Name: "red", Index: 9, VRF: true})
		}, []Kind{InVRF}},
		"part of a bridge": {func(_ *Layout, k *Kernel) {
			link(k, 3).Master = "br0"
			k.Links = append(k.Links, Link{Name: "br0", Index: 9})
		}, nil},
		"gateway off the link": {func(_ *Layout, k *Kernel) { k.Routes[3].Gateway = addr("10.11.0.1") }, []Kind{OffLink}},
		"gateway said to be on the link": {func(l *Layout, k *Kernel) {
			k.Routes[3].Gateway = addr("10.11.0.1")
			l.Uplinks[0].OnLink = true
		}, nil},
		"configured gateway off the link": {func(l *Layout, k *Kernel) {
			k.Routes = slices.Delete(k.Routes, 3, 4)
			l.Uplinks[0].Gateway4 = addr("10.11.0.1")
		}, []Kind{OffLink}},
		"configured gateway": {func(l *Layout, k *Kernel) {
			k.Routes = slices.Delete(k.Routes, 3, 4)
			l.Uplinks[0].Gateway4 = addr("10.10.0.7")
		}, nil},
		"unknown active":           {func(l *Layout, _ *Kernel) { l.Active = "z" }, []Kind{BadLayout}},
		"names twice":              {func(l *Layout, _ *Kernel) { l.Uplinks[1].Name = "a" }, []Kind{BadLayout}},
		"interfaces twice":         {func(l *Layout, _ *Kernel) { l.Uplinks[1].Interface = "wan0" }, []Kind{BadLayout}},
		"marks twice":              {func(l *Layout, _ *Kernel) { l.Uplinks[1].Mark = 0x100 }, []Kind{BadLayout}},
		"mark outside of the mask": {func(l *Layout, _ *Kernel) { l.Mask, l.Uplinks[1].Mark = 0x300, 0x400 }, []Kind{BadLayout}},
		"no mask":                  {func(l *Layout, _ *Kernel) { l.Mask = 0 }, []Kind{BadLayout, BadLayout}},
		"main as a table":          {func(l *Layout, _ *Kernel) { l.Uplinks[1].Table = 254 }, []Kind{BadLayout}},
		"tables twice":             {func(l *Layout, _ *Kernel) { l.FirstTable = 8710 }, []Kind{BadLayout}},
		"rules behind main":        {func(l *Layout, _ *Kernel) { l.FirstRule = 32760 }, []Kind{BadLayout}},
		"the kernel's protocol":    {func(l *Layout, _ *Kernel) { l.Protocol = 2 }, []Kind{BadLayout}},
		"simple before metric 5": {func(l *Layout, k *Kernel) {
			l.Simple, k.Routes[4].Metric = true, 5
		}, []Kind{LowMetric}},
		"a kernel without rules": {func(_ *Layout, k *Kernel) { k.Rules, k.NoRules = nil, true }, []Kind{NoRules}},
		"simple on a kernel without rules": {func(l *Layout, k *Kernel) {
			l.Simple, k.Rules, k.NoRules = true, nil, true
		}, nil},
		"simple with what rules are about": {func(l *Layout, k *Kernel) {
			l.Simple = true
			k.Rules = append(k.Rules, Rule{Priority: 21001, Table: 50}, Rule{Priority: 100, Table: MainTable})
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			l, k := desk("a"), Kernel{Links: main.Links, Addrs: main.Addrs, Routes: slices.Clone(main.Routes), Rules: main.Rules, IPv6: true}
			k.Links = slices.Clone(k.Links)
			c.change(&l, &k)
			p := filled(l, k)
			if got := kinds(p); !slices.Equal(got, c.want) {
				t.Errorf("the plan is\n%v\nwant %q", p, c.want)
			}
			if err := p.Err(); (err != nil) != (len(c.want) > 0) || err != nil && (!errors.Is(err, ErrRefused) || len(p.Steps) > 0) {
				t.Errorf("the error is %v, of %d steps", err, len(p.Steps))
			}
		})
	}
}

// An interface that bears the name of the one that was discovered is not it.
func TestOtherInterface(t *testing.T) {
	l, _ := desk("a").Fill(machine())
	k := machine()
	k.Links[2].Index = 33
	if got := kinds(l.Plan(k)); !slices.Equal(got, []Kind{OtherLink}) {
		t.Errorf("refused is %q", got)
	}
	if p := l.Without("a").Plan(k); len(p.Refusals) > 0 {
		t.Errorf("without it: %v", p)
	}
}

package route

import (
	"strings"
	"testing"
)

func TestFreeMask(t *testing.T) {
	l := desk("a")
	for name, c := range map[string]struct {
		rules []Rule
		used  uint32
		want  uint32
	}{
		"nobody else":             {nil, 0, 0x300},
		"our own":                 {[]Rule{{Mark: 0x100, Mask: 0x300, Protocol: 219}}, 0, 0x300},
		"a mask":                  {[]Rule{{Mark: 0x100, Mask: 0xff00, Table: 9}}, 0, 0x30000},
		"one mark":                {[]Rule{{Mark: 0xca6c, Mask: ^uint32(0), Table: 9}}, 0, 0x3000},
		"a packet filter":         {nil, 0xffff00, 0x3000000},
		"all but low ones":        {nil, ^uint32(0xff), 0x3},
		"all":                     {nil, ^uint32(0), 0},
		"all but one bit of each": {nil, 0x55555555, 0},
	} {
		if got := l.freeMask(Kernel{Rules: c.rules}, c.used); got != c.want {
			t.Errorf("%s: %#x, want %#x", name, got, c.want)
		}
	}
	if got := l.OtherMask(Kernel{}, ^uint32(0)); !strings.Contains(got, "no bits are left") {
		t.Error(got)
	}
	l.Uplinks = append(l.Uplinks, Uplink{Name: "c"}, Uplink{Name: "d"})
	if got := l.freeMask(Kernel{}, 0x100); got != 0xe00 {
		t.Errorf("for four: %#x", got)
	}
}

// What to do about a refusal is a command, or a line of the configuration.
func TestFixes(t *testing.T) {
	l := desk("a")
	for name, c := range map[string]struct {
		change func(*Kernel)
		want   string
	}{
		"rule among ours": {func(k *Kernel) {
			k.Rules = append(k.Rules, Rule{Priority: 21001, From: prefix("10.9.0.0/16"), Table: 50, Protocol: 3})
		}, "ip rule add pref 20992 from 10.9.0.0/16 lookup 50 protocol 3 && ip rule del pref 21001 from 10.9.0.0/16 lookup 50 protocol 3"},
		"rule among ours that has more to it": {func(k *Kernel) {
			k.Rules = append(k.Rules, Rule{Priority: 21001, Table: 50, Odd: true})
		}, "give it a priority below 20993 where it is set up"},
		"rule that decides before": {func(k *Kernel) { k.Rules = append(k.Rules, Rule{Priority: 100, Table: MainTable, Protocol: 3}) },
			"ip rule del pref 100 lookup 254 protocol 3"},
		"mark": {func(k *Kernel) {
			k.Rules = append(k.Rules, Rule{Priority: 32765, Mark: 0x100, Mask: 0xffffffff, Table: 51820, Odd: true})
		}, "mask: 0x600"},
		"route": {func(k *Kernel) {
			k.Routes = append(k.Routes, Route{Table: 8711, Dst: prefix("10.9.0.0/16"), Type: unicast, Index: 3, Interface: "wan1", Protocol: 4})
		}, "ip route del 10.9.0.0/16 dev wan1 table 8711 proto 4"},
		"protocol": {func(k *Kernel) { k.Rules = append(k.Rules, Rule{Priority: 7, Table: 50, Protocol: 219}) }, "ip rule del pref 7 lookup 50 protocol 219"},
	} {
		k := machine()
		c.change(&k)
		p := filled(l, k)
		if len(p.Refusals) == 0 || !strings.Contains(p.Refusals[0].Fix, c.want) {
			t.Errorf("%s: %v, want %s", name, p, c.want)
		}
	}
}

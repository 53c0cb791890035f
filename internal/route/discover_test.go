package route

import (
	"errors"
	"net/netip"
	"slices"
	"testing"
)

func TestDiscover(t *testing.T) {
	with := func(change func(*Kernel)) Discovery {
		k := machine()
		change(&k)
		return Default().Discover(k, "wan0")
	}
	d := with(func(*Kernel) {})
	if d.Err4 != nil || d.Err6 != nil || d.Gateway6 != addr("fe80::1") || d.Source6 != addr("2001:db8:1::2") ||
		!slices.Equal(d.Connected, []netip.Prefix{prefix("10.10.0.0/24"), prefix("2001:db8:1::/64")}) {
		t.Errorf("discovered is %+v", d)
	}
	d = with(func(k *Kernel) {
		k.Links[2].Master = "red"
		k.Links = append(k.Links, Link{Name: "red", Index: 9, VRF: true})
	})
	if !errors.Is(d.Err4, ErrVRF) || !errors.Is(d.Err6, ErrVRF) {
		t.Errorf("part of a VRF: %+v", d)
	}
	d = with(func(k *Kernel) {
		k.Routes = append(k.Routes, Route{Table: MainTable, Dst: defaultOf(false), Type: unicast, Gateway: addr("10.10.0.9"), Index: 3, Protocol: 219})
	})
	if d.Gateway4 != addr("10.10.0.1") || len(d.Notes) > 0 {
		t.Errorf("our own default is taken: %+v", d)
	}
	lasting := Addr{Index: 3, Prefix: prefix("2001:db8:1::5/64"), Global: true}
	for name, worse := range map[string]Addr{
		"temporary":  {Secondary: true, Prefix: prefix("2001:db8:1::6/64")},
		"deprecated": {Deprecated: true, Prefix: prefix("2001:db8:1::6/64")},
		"private":    {Prefix: prefix("fd00::6/64")},
		"tentative":  {Tentative: true, Prefix: prefix("2001:db8:1::6/64")},
	} {
		worse.Index, worse.Global = 3, true
		if d := with(func(k *Kernel) { k.Addrs = []Addr{worse, lasting} }); d.Source6 != lasting.Prefix.Addr() {
			t.Errorf("%s: %v", name, d.Source6)
		}
		d := with(func(k *Kernel) { k.Addrs = []Addr{worse} })
		if d.Source6.IsValid() != !worse.Tentative || errors.Is(d.Err6, ErrNoAddress) != worse.Tentative {
			t.Errorf("only %s: %v, %v", name, d.Source6, d.Err6)
		}
	}
}

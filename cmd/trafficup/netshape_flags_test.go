package main

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"trafficup/internal/config"
	"trafficup/internal/tc"
)

// Flags go over the configuration of their interface; what is not given stays.
func TestNetshapeFlagsOverConfiguration(t *testing.T) {
	c := Config{&config.Loaded{Config: config.Default()}}
	c.Netshape.Interfaces = []config.ShapedInterface{{
		Name: "eth1", Kind: "cake", Up: "9mbit", Down: "50mbit", RTT: 50 * time.Millisecond, Overhead: "38", AckFilter: "aggressive",
	}}
	base := tc.Cake{
		Rate: 9e6, Diffserv: tc.Diffserv4, Flows: tc.DualSrcHost, RTT: 50 * time.Millisecond, Overhead: 38, HasOverhead: true,
		AckFilter: tc.AckFilterAggressive, NAT: true, SplitGSO: true,
	}
	for _, tt := range []struct {
		name string
		o    netshapeOptions
		want func(*tc.Cake)
	}{
		{"none", netshapeOptions{}, func(*tc.Cake) {}},
		{"rtt", netshapeOptions{rtt: "30ms"}, func(c *tc.Cake) { c.RTT = 30 * time.Millisecond }},
		{"no rtt", netshapeOptions{rtt: "0s"}, func(c *tc.Cake) { c.RTT = 100 * time.Millisecond }},
		{"overhead", netshapeOptions{overhead: "-4"}, func(c *tc.Cake) { c.Overhead = -4 }},
		{"no overhead", netshapeOptions{overhead: "0"}, func(c *tc.Cake) { c.Overhead = 0 }},
		{"ack-filter", netshapeOptions{ackFilter: "on"}, func(c *tc.Cake) { c.AckFilter = tc.AckFilterOn }},
		{"no ack-filter", netshapeOptions{ackFilter: "off"}, func(c *tc.Cake) { c.AckFilter = tc.NoAckFilter }},
	} {
		d, err := tt.o.desired(c)
		want := base
		tt.want(&want)
		if err != nil || d.Interfaces[0].Root.Cake != want {
			t.Errorf("%s: %+v, %v; want %+v", tt.name, d.Interfaces, err, want)
		}
	}
	d, err := (&netshapeOptions{kind: "fq_codel"}).desired(c)
	if err != nil || d.Interfaces[0].Root.HTB.Codel.Interval != 50*time.Millisecond {
		t.Errorf("what the file says for cake alone: %+v, %v", d.Interfaces, err)
	}
	if _, err := (&netshapeOptions{kind: "fq_codel", overhead: "38"}).desired(c); err == nil || !strings.Contains(err.Error(), "are for kind cake") {
		t.Error(err)
	}
	// Each of them says what is wanted, to watch, too.
	for _, name := range []string{"kind", "up", "down", "profile", "diffserv", "rtt", "overhead", "ack-filter"} {
		var o netshapeOptions
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		o.addRateFlags(fs)
		if o.rated() || fs.Set(name, "x") != nil || !o.rated() {
			t.Error(name)
		}
	}
	if d, err = (&netshapeOptions{kind: "none"}).desired(c); err != nil || d.Interfaces[0].Root.Kind != "" {
		t.Errorf("%+v, %v", d.Interfaces, err)
	}
}

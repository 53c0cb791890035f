package route

import (
	"net/netip"
	"testing"
)

// The uplink that carries is that of the default in our table, whoever has others.
func TestCarries(t *testing.T) {
	l := Default()
	l.Uplinks = []Uplink{{Name: "leo", Interface: "wan0"}, {Name: "lte", Interface: "wan1"}}
	ours := Route{Table: l.ActiveTable, Dst: netip.MustParsePrefix("0.0.0.0/0"), Type: unicast, Interface: "wan1", Protocol: l.Protocol}
	none := Route{Table: l.ActiveTable, Dst: netip.MustParsePrefix("::/0"), Metric: 1024, Type: unreachable, Interface: "lo", Protocol: l.Protocol}
	other := Route{Table: 254, Dst: ours.Dst, Type: unicast, Interface: "wan0", Protocol: 16}
	for _, c := range []struct {
		routes []Route
		want   int
	}{{nil, -1}, {[]Route{other}, -1}, {[]Route{other, none, ours}, 1}, {[]Route{none}, -1}} {
		if got := l.Carries(Kernel{Routes: c.routes}); got != c.want {
			t.Errorf("%v: %d, want %d", c.routes, got, c.want)
		}
	}
}

package probe

import (
	"testing"

	"trafficup/internal/nstest"
)

// Without rules a probe is bound to its interface: it leaves by that, with main's
// default by it, whichever is in use, and by no other. Where main has no such
// default it is not sent at all, though a neighbour would answer ARP for the target.
func TestBoundToItsDevice(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	nstest.Shell(t, l.isp0, "sysctl -qw net.ipv4.conf.wan.proxy_arp=1")
	nstest.Shell(t, l.edge, "sysctl -qw net.ipv4.conf.all.rp_filter=2; "+both("ip $f rule flush; ip $f rule add pref 32766 lookup main"))
	taps := [2]*tap{newTap(t, l.edge, "wan0"), newTap(t, l.edge, "wan1")}
	bound := func(i int) Binding {
		b := l.uplinks[i]
		b.Mark, b.Device = 0, true
		return b
	}
	for _, inUse := range []string{"1", "2"} {
		nstest.Shell(t, l.edge, "ip route add default via 10.0."+inUse+".1 metric 5; ip -6 route add default via fd0"+inUse+"::1 metric 5")
		for i := range l.uplinks {
			for _, to := range targets {
				taps[1-i].seen()
				if r := l.probe(t, patient, bound(i), to); !r.OK {
					t.Errorf("%s by wan%d with %s in use: %+v", to, i, inUse, r)
				}
				for _, p := range taps[1-i].seen() {
					if p.with(to.Addr.Addr()) {
						t.Errorf("%s by wan%d: seen on the other: %+v", to, i, p)
					}
				}
			}
		}
		nstest.Shell(t, l.edge, both("ip $f route del default metric 5"))
	}
	nstest.Shell(t, l.edge, both("ip $f route del default dev wan0"))
	for _, p := range taps {
		p.seen()
	}
	for _, to := range targets {
		if r := l.probe(t, patient, bound(0), to); r.OK || r.Fault != NoRoute || r.Bytes != 0 {
			t.Errorf("%s without a default by wan0: %+v", to, r)
		}
		for i, tap := range taps {
			for _, p := range tap.seen() {
				if p.with(to.Addr.Addr()) {
					t.Errorf("%s without a default by wan0: seen on wan%d: %+v", to, i, p)
				}
			}
		}
	}
}

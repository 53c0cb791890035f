package edgelab

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

// ours is what stands of failover's.
func (b *bench) ours() string {
	return b.in("edge", "for f in -4 -6; do ip $f rule | grep 'proto 219' || true; ip $f route show table all | grep 'proto 219' || true; done")
}

// chosen runs failover until it made its first choice, and the routes follow.
func (b *bench) chosen() {
	b.t.Helper()
	b.start()
	b.soon("the first choice", 20*time.Second, func() bool {
		said := b.said.String()
		return strings.Contains(said, "switch: leo") && strings.Contains(said[strings.Index(said, "switch: leo"):], "routes: ") && b.active() == "leo"
	})
	time.Sleep(500 * time.Millisecond)
}

// moves is how often it switched, its first choice aside.
func (b *bench) moves() int { return strings.Count(b.said.String(), " after ") }

// Whatever of its own is taken away or changed by hand is put back within ten
// seconds, in both families, and nobody is told that the uplink failed.
func TestPutBack(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick, masquerade)
	b.six()
	others := b.settled()
	b.chosen()
	before := b.ours()
	for _, harm := range []string{
		"ip -6 route flush table 8710",
		"ip -6 route flush table 8711",
		"ip -6 rule flush protocol 219; ip rule flush protocol 219",
		"for p in 20998 20999 21000 21003 21004 21010; do ip rule del pref $p; done",
		"ip rule del pref 20998",
		"ip -6 rule del pref 21000",
		"ip route del unreachable default table 8712",
		"ip route del 10.0.0.0/24 table 8711",
		"ip route replace default via 10.0.1.1 dev wan1 table 8710 proto 219",
		"ip route replace default via 10.0.1.1 dev wan1 table 8710", // a hand, without our protocol
		"ip -6 route replace default via 2001:db8:1::1 dev wan1 table 8710",
		"ip route add 10.99.0.0/24 via 10.0.1.1 table 8711 proto 219; ip rule add pref 21005 from 10.99.0.1 lookup 8711 protocol 219",
	} {
		b.in("edge", harm)
		took := b.soon("after "+harm, 10*time.Second, func() bool { return b.ours() == before })
		if took > time.Second { // the kernel tells of what is deleted by hand
			t.Logf("%s: %v", harm, took)
		}
	}
	b.in("edge", "nft flush ruleset")
	time.Sleep(2 * time.Second) // nothing of it is ours
	if got := b.ours(); got != before {
		t.Errorf("after nft flush ruleset there is\n%s", got)
	}
	b.in("edge", "timeout 5 bash -c 'exec 3<>/dev/tcp/9.9.9.9/443'")
	b.in("edge", "nft 'table ip nat { chain post { type nat hook postrouting priority srcnat; policy accept; "+masquerade+"; }; }'")
	if n := b.moves(); n > 0 {
		t.Errorf("%d switches\n%s", n, b.said)
	}
	b.cleanly(others)
}

// A rule of somebody else's among ours, and our protocol number elsewhere, are
// named and left alone. They hold up no switch.
func TestForeign(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick, masquerade)
	others := b.settled()
	b.chosen()
	b.in("edge", "ip rule add pref 21005 from 10.77.0.0/16 lookup 77")
	b.soon("the rule is named", 12*time.Second, func() bool {
		return strings.Contains(b.said.String(), "rule of somebody else's among ours") && strings.Contains(b.said.String(), "from 10.77.0.0/16 lookup 77")
	})
	for k := range 2 { // with the link the kernel takes our routes, which are put back
		b.in("edge", fmt.Sprintf("ip link set wan%[1]d down; ip link set wan%[1]d up; ip route replace default via 10.0.%[1]d.1 dev wan%[1]d metric 10%[1]d proto dhcp", k))
		b.soon("its table", 12*time.Second, func() bool {
			return strings.Contains(b.in("edge", fmt.Sprintf("ip route show table %d", 8711+k)), fmt.Sprintf("default via 10.0.%d.1", k))
		})
	}
	b.soon("leo is back", 30*time.Second, func() bool { return b.active() == "leo" })
	b.reach()
	b.loses(true)
	b.soon("a switch all the same", 20*time.Second, func() bool { return b.active() == "lte" })
	b.reach()
	b.soon("status says it", 12*time.Second, func() bool {
		return strings.Contains(b.in("edge", b.program+" failover status --config "+b.config+" --state-dir "+b.dir+"/state"), "10.77.0.0/16")
	})
	b.in("edge", "ip rule del pref 21005; ip route add 10.88.0.0/16 via 10.0.1.1 proto 219")
	b.soon("the route is named", 12*time.Second, func() bool { return strings.Contains(b.said.String(), "protocol 219 is in use elsewhere") })
	b.loses(false)
	b.soon("back all the same", 30*time.Second, func() bool { return b.active() == "leo" })
	if n := strings.Count(b.said.String(), "rule of somebody else's among ours"); n != 1 {
		t.Errorf("the rule was named %d times\n%s", n, b.said)
	}
	b.in("edge", "ip route del 10.88.0.0/16")
	b.cleanly(others)
}

// counted is how many packets a counter of nftables in a namespace saw.
func (b *bench) counted(ns string) (n int) {
	b.t.Helper()
	for _, f := range strings.Split(b.in(ns, "nft list table inet count"), "packets ")[1:] {
		one, err := strconv.Atoi(strings.Fields(f)[0])
		fatal(b.t, err)
		n += one
	}
	return n
}

// No probe of one uplink leaves by another, its cable in or out, before, during and
// after a switch. There is no translation here, and so addresses tell whose it is.
func TestNoProbeOnTheOtherUplink(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick, "")
	b.six()
	for k := range 2 {
		b.in(fmt.Sprintf("isp%d", k), fmt.Sprintf(`nft 'table inet count { chain in { type filter hook prerouting priority -400; iifname "up*" ip saddr 10.0.%[1]d.0/24 counter; iifname "up*" ip6 saddr 2001:db8:%[1]d::/64 icmpv6 type echo-request counter; }; }'`, 1-k))
	}
	b.in("edge", `nft 'table inet count { chain post { type filter hook postrouting priority 400; oifname "wan1" mark & 0x300 == 0x100 counter; oifname "wan0" mark & 0x300 == 0x200 counter; }; }'`)
	b.in("edge", `nft 'table inet own { chain post { type filter hook postrouting priority 400; oifname "wan0" mark & 0x300 == 0x100 counter; }; }'`)
	b.chosen()
	for _, fault := range []struct{ at, down, up string }{
		{"isp0", "ip link set up0 down", "ip link set up0 up; ip route replace 10.0.0.0/24 dev up0 src 10.0.0.1"},
		{"isp0", drop(""), forgive},
		{"edge", "ip route del default dev wan0", "ip route replace default via 10.0.0.1 dev wan0 metric 100 proto dhcp"},
	} {
		b.in(fault.at, fault.down)
		b.soon(fault.down, 20*time.Second, func() bool { return b.active() == "lte" })
		b.soon("leo is down", 5*time.Second, func() bool { return b.verdict("leo") == "down" })
		b.in(fault.at, fault.up)
		b.soon("back", 30*time.Second, func() bool { return b.active() == "leo" })
	}
	for _, ns := range []string{"edge", "isp0", "isp1"} {
		if n := b.counted(ns); n > 0 {
			t.Errorf("%d packets at %s that are those of another uplink: %s", n, ns, b.in(ns, "nft list table inet count"))
		}
	}
	if own := b.in("edge", "nft list table inet own"); strings.Contains(own, "packets 0 ") {
		t.Errorf("nothing was counted at all: %s", own)
	}
}

// Loss of nearly a third for as many rounds as four minutes have is no reason to go
// to and fro.
func TestLossIsNoFlapping(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick, masquerade)
	b.chosen()
	b.in("isp0", drop("numgen random mod 100 < 30"))
	time.Sleep(24 * time.Second)
	if n := b.moves(); n > 1 {
		t.Errorf("%d switches\n%s", n, b.said)
	}
	b.reach()
}

// Where no uplink passes anything nothing is changed, and it is said once. The first
// that is good again is used, the preferred one as soon as it is.
func TestBothDown(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick, masquerade)
	b.chosen()
	before := b.ours()
	b.in("isp0", drop(""))
	b.in("isp1", drop(""))
	b.soon("all are down", 20*time.Second, func() bool { return strings.Contains(b.said.String(), "no uplink answers") })
	time.Sleep(12 * time.Second)
	if got := b.ours(); got != before || b.moves() > 0 {
		t.Errorf("with all down there is\n%s\nand was\n%s\n%s", got, before, b.said)
	}
	status := b.in("edge", b.program+" failover status --json --config "+b.config+" --state-dir "+b.dir+"/state")
	if !strings.Contains(status, `"all_down":true`) && !strings.Contains(status, `"all_down": true`) {
		t.Errorf("status does not say that all are down: %s", status)
	}
	b.in("isp1", forgive)
	b.soon("the first good one", 10*time.Second, func() bool { return b.active() == "lte" })
	b.reach()
	b.in("isp0", forgive)
	b.soon("the preferred one", 30*time.Second, func() bool { return b.active() == "leo" })
	for text, want := range map[string]int{"no uplink answers": 1, "answers again": 1, "trafficup: leo is down": 1, "trafficup: lte is down": 1} {
		if n := strings.Count(b.said.String(), text); n != want {
			t.Errorf("%q was said %d times\n%s", text, n, b.said)
		}
	}
}

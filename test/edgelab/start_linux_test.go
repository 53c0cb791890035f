package edgelab

import (
	"strings"
	"testing"
	"time"
)

// real are the rules as they are when nothing is configured.
var real = quick[:strings.Index(quick, "  interval:")]

// The preferred uplink has carrier and address, and nothing answers: the backup
// carries as soon as the rules can know, and the deadline of the start at the latest.
func TestStartWithDeadPrimary(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		config string
		within time.Duration
	}{"quick": {quick, 5 * time.Second}, "real time": {real, 18 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, c.config, masquerade)
			b.loses(true)
			b.start()
			took := b.soon("the backup", c.within, func() bool { return b.active() == "lte" })
			t.Logf("after %v", took)
			b.reach()
			if strings.Contains(b.said.String(), "switch: leo") {
				t.Errorf("it chose the dead one first\n%s", b.said)
			}
		})
	}
}

// The preferred uplink has no way out as it starts, or is not there at all, as a
// modem that is not plugged in. It is used when it comes.
func TestStartBeforeTheUplink(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ gone, come string }{
		"no route":     {"ip route del default dev wan0", "ip route add default via 10.0.0.1 dev wan0 metric 100 proto dhcp"},
		"no address":   {"ip addr flush dev wan0", "ip addr add 10.0.0.2/24 dev wan0; ip route add default via 10.0.0.1 dev wan0 metric 100 proto dhcp"},
		"no interface": {"ip link set wan0 down; ip link set wan0 name later", "ip link set later name wan0; ip link set wan0 up; ip route add default via 10.0.0.1 dev wan0 metric 100 proto dhcp"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, quick, masquerade)
			b.in("edge", c.gone)
			b.start()
			b.soon("the backup", 6*time.Second, func() bool { return b.active() == "lte" && strings.Contains(b.said.String(), "switch: lte") })
			b.reach()
			b.in("edge", c.come)
			b.soon("the preferred one", 20*time.Second, func() bool { return b.active() == "leo" && strings.Contains(b.said.String(), "switch: leo") })
			b.reach()
			others := b.settled()
			b.cleanly(others)
		})
	}
}

// A modem that is pulled and plugged in again is another interface by the same name.
func TestPluggedInAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick, masquerade)
	b.chosen()
	for range 2 {
		b.in("edge", "ip link del wan0")
		b.soon("the backup", 8*time.Second, func() bool { return b.active() == "lte" })
		b.reach()
		b.sh(strings.ReplaceAll(`ip link add wan0 netns P-edge type veth peer name up0 netns P-isp0
ip -n P-edge addr add 10.0.0.7/24 dev wan0; ip -n P-edge link set wan0 up
ip -n P-isp0 addr add 10.0.0.1/24 dev up0; ip -n P-isp0 link set up0 up
ip -n P-edge route add default via 10.0.0.1 dev wan0 metric 100 proto dhcp
ip netns exec P-edge sh -c 'echo 1 > /proc/sys/net/ipv4/conf/wan0/rp_filter'`, "P-", b.prefix))
		b.soon("the new one", 30*time.Second, func() bool { return b.active() == "leo" })
		b.reach()
	}
}

// Nothing answers as it starts: what the machine's own routes say stays, it says so,
// and the first that answers is used.
func TestStartWithAllDown(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick, masquerade)
	b.in("isp0", drop(""))
	b.in("isp1", drop(""))
	b.start()
	b.soon("it is said", 6*time.Second, func() bool { return strings.Contains(b.said.String(), "no uplink answers") })
	time.Sleep(3 * time.Second)
	if got := b.in("edge", "ip route show table 8710 2>/dev/null || true"); got != "" || b.active() != "leo" || strings.Contains(b.said.String(), "switch:") {
		t.Errorf("chosen is %q\n%s", got, b.said)
	}
	if b.status().Active != "" {
		t.Errorf("status says that %s is active", b.status().Active)
	}
	b.in("isp1", forgive)
	b.soon("the one that answers", 10*time.Second, func() bool { return b.active() == "lte" })
	b.reach()
}

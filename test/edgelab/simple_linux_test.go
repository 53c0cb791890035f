package edgelab

import (
	"strings"
	"testing"
	"time"
)

// One default of its own in main, nothing else: there and back, and away.
func TestSimple(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick+"  simple: true\n", masquerade)
	b.in("edge", "echo 2 > /proc/sys/net/ipv4/conf/all/rp_filter")
	b.six()
	others := b.settled()
	b.chosen()
	want := func(dev, gw string) {
		t.Helper()
		b.soon("a default by "+dev, 10*time.Second, func() bool {
			lines := strings.Split(strings.TrimSpace(b.ours()), "\n")
			return len(lines) == 2 && strings.HasPrefix(lines[0], "default via "+gw+" dev "+dev+" proto 219") && strings.Contains(lines[0], "metric 5") &&
				strings.HasPrefix(lines[1], "default via 2001:db8:") && strings.Contains(lines[1], "dev "+dev+" proto 219")
		})
		b.reach()
	}
	want("wan0", "10.0.0.1")
	b.loses(true)
	b.soon("the backup", 20*time.Second, func() bool { return b.active() == "lte" })
	want("wan1", "10.0.1.1")
	const astray = "routes do not follow: IPv4 leaves by: default via 10.0.0.1 dev wan0"
	said := func() bool {
		return strings.Contains(b.in("edge", b.program+" failover status --config "+b.config+" --state-dir "+b.dir+"/state"), astray)
	}
	b.in("edge", "ip route add default via 10.0.0.1 dev wan0 proto dhcp") // with metric 0, before which there is nothing
	b.soon("status says it", 25*time.Second, said)
	b.in("edge", "ip route del default via 10.0.0.1 dev wan0 proto dhcp metric 0")
	b.soon("status says it no more", 25*time.Second, func() bool { return !said() })
	b.in("edge", "ip route del default metric 5")
	want("wan1", "10.0.1.1")
	b.loses(false)
	b.soon("the preferred one", 30*time.Second, func() bool { return b.active() == "leo" })
	want("wan0", "10.0.0.1")
	if !strings.Contains(b.said.String(), "failover.simple: ") {
		t.Errorf("it does not say what it cannot do\n%s", b.said)
	}
	b.cleanly(others)
}

// A strict rp_filter drops what the other uplink answers: it is not gone to, as if
// it was dead, and the machine's own routes are left alone.
func TestSimpleWithStrictFilter(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick+"  simple: true\n", masquerade)
	b.chosen()
	b.loses(true)
	b.soon("it is said", 20*time.Second, func() bool { return strings.Contains(b.said.String(), "no uplink answers") })
	if got := b.active(); got != "leo" {
		t.Errorf("%s is active\n%s", got, b.said)
	}
}

package edgelab

import (
	"os/exec"
	"strings"
	"testing"
	"time"
)

// six gives everybody IPv6 besides, as advertisements of routers would.
func (b *bench) six() {
	b.t.Helper()
	b.in("edge", `echo 0 | tee /proc/sys/net/ipv6/conf/*/accept_ra >/dev/null; echo 1 > /proc/sys/net/ipv6/conf/all/forwarding
ip addr add fd05::1/64 dev lan0 nodad`)
	b.in("lan", "ip addr add fd05::2/64 dev eth0 nodad; ip -6 route add default via fd05::1")
	for _, k := range []string{"0", "1"} {
		b.in("isp"+k, strings.ReplaceAll(`ip addr add 2001:db8:K::1/64 dev upK nodad; ip addr add 2001:db8:99::9/128 dev lo nodad
ip -6 route add fd05::/64 via 2001:db8:K::2 dev upK`, "K", k))
		b.in("edge", strings.ReplaceAll(`ip addr add 2001:db8:K::2/64 dev wanK nodad
ip -6 route add default via 2001:db8:K::1 dev wanK metric 102K proto ra`, "K", k))
		cmd := exec.Command("ip", "netns", "exec", b.prefix+"isp"+k, b.program, "sandbox", "--listen", "[2001:db8:99::9]:443")
		fatal(b.t, cmd.Start())
		b.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	}
}

// active6 is the interface that IPv6 leaves by, or why there is none.
func (b *bench) active6() string {
	out, err := exec.Command("ip", "-n", b.prefix+"edge", "-6", "route", "get", "2001:db8:99::9").CombinedOutput()
	_, dev, found := strings.Cut(string(out), " dev ")
	if err != nil || !found {
		return string(out)
	}
	return strings.Fields(dev)[0]
}

// reach6 has the host in the LAN connect by IPv6, and returns what becomes of it
// and how long that took.
func (b *bench) reach6() (said string, took time.Duration) {
	begun := time.Now()
	out, _ := exec.Command("ip", "netns", "exec", b.prefix+"lan", "timeout", "5", "bash", "-c", "exec 3<>/dev/tcp/2001:db8:99::9/443").CombinedOutput()
	return string(out), time.Since(begun)
}

// A switch takes IPv6 along.
func TestIPv6(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick, masquerade)
	b.six()
	others := b.settled()
	b.chosen()
	for _, way := range []struct {
		lost      bool
		name, dev string
	}{{true, "lte", "wan1"}, {false, "leo", "wan0"}} {
		b.loses(way.lost)
		b.soon(way.name, 30*time.Second, func() bool { return b.active() == way.name && b.active6() == way.dev })
		b.reach()
		b.soon("IPv6 by "+way.name, 5*time.Second, func() bool { said, _ := b.reach6(); return said == "" })
	}
	b.cleanly(others)
}

// A backup that has none: clients are told at once, and take IPv4. An uplink whose
// advertisement ran out is as one that never had any.
func TestIPv6OfTheBackupIsMissing(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick, masquerade)
	b.six()
	b.in("edge", "ip -6 route del default dev wan1")
	others := b.settled()
	b.chosen()
	b.loses(true)
	b.soon("the backup", 20*time.Second, func() bool { return b.active() == "lte" })
	if got := b.in("edge", "ip -6 route show table 8710"); !strings.Contains(got, "unreachable default") {
		t.Errorf("the active table of IPv6 holds: %s", got)
	}
	if said, took := b.reach6(); !strings.Contains(said, "unreachable") && !strings.Contains(said, "No route") || took > 3*time.Second { // the second SYN is told, or the first
		t.Errorf("IPv6 from the LAN: %q after %v", said, took)
	}
	b.reach()
	b.loses(false)
	b.soon("back", 30*time.Second, func() bool { return b.active() == "leo" && b.active6() == "wan0" })
	if said, _ := b.reach6(); said != "" {
		t.Errorf("IPv6 from the LAN: %s", said)
	}
	b.cleanly(others)
}

// Where IPv6 is not to be looked after it is left alone.
func TestIPv6IsLeftAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick+"  ipv6: false\n", masquerade)
	b.six()
	all := func() string {
		return b.in("edge", "ip -6 rule; ip -6 route show table all | sed 's/expires [0-9]*sec//' | sort")
	}
	b.settled()
	before := all()
	b.chosen()
	b.loses(true)
	b.soon("the backup", 20*time.Second, func() bool { return b.active() == "lte" })
	if got := all(); got != before {
		t.Errorf("IPv6 was\n%s\nand is\n%s", before, got)
	}
	if got := b.active6(); got != "wan0" {
		t.Errorf("IPv6 leaves by %s", got)
	}
}

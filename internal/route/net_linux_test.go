package route

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"trafficup/internal/nstest"
)

// Either uplink is active: probes leave by their own, everything else by the
// active one, the LAN reaches every address of the machine, answers leave by the
// uplink that was asked, and nothing is left behind.
func TestLayout(t *testing.T) {
	t.Parallel()
	for name, nat := range map[string]func(*testing.T, lab){"masquerade": masquerade, "snat": snat} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			nat(t, l)
			before := l.dump(t)
			l.reach(t, "a")
			carries(t, l, 0)
			l.reach(t, "b")
			carries(t, l, 1)
			l.reach(t, "a")
			carries(t, l, 0)
			l.remove(t)
			if after := l.dump(t); after != before {
				t.Errorf("left behind:\n%s\nthere was:\n%s", after, before)
			}
			answers(t, l.lan, "", 0, target4, "isp0 10.10.0.2")
		})
	}
}

func carries(t *testing.T, l lab, active int) {
	t.Helper()
	addrs4, addrs6 := []string{"10.10.0.2", "10.20.0.2"}, []string{"fd10::2", "fd20::2"}
	isp := fmt.Sprintf("isp%d ", active)
	answers(t, l.lan, "", 0, target4, isp+addrs4[active])
	answers(t, l.lan, "", 0, target6, isp+"fd01::2")
	answers(t, l.edge, "", 0, target4, isp+addrs4[active])
	answers(t, l.edge, "", 0, target6, isp+addrs6[active])
	for i, ns := range []string{l.isp0, l.isp1} {
		isp := fmt.Sprintf("isp%d ", i)
		answers(t, l.edge, addrs4[i], 0x100<<i, target4, isp+addrs4[i])
		answers(t, l.edge, addrs6[i], 0x100<<i, target6, isp+addrs6[i])
		answers(t, l.edge, addrs4[i], 0, target4, isp+addrs4[i])
		answers(t, ns, "9.9.9.9", 0, addrs4[i]+":7000", "edge 9.9.9.9")
		answers(t, l.lan, "", 0, addrs4[i]+":7000", "edge 10.1.0.2")
	}
}

// A probe of an uplink that is not there fails at once, and nobody is looked for
// on the link.
func TestProbeOfDeadUplink(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	nstest.Shell(t, l.edge, "ip route del default dev wan1; ip -6 route del default dev wan1")
	l.reach(t, "a")
	for to, from := range map[string]string{target4: "10.20.0.2", target6: "fd20::2"} {
		if got, err := ask(l.edge, "udp", from, 0x200, to); err == nil {
			t.Errorf("%s answers %q, want no route", to, got)
		}
	}
	if neigh := nstest.Shell(t, l.edge, "ip neigh show to 9.9.9.9; ip -6 neigh show to fd99::9"); neigh != "" {
		t.Errorf("looked for on the link: %s", neigh)
	}
	answers(t, l.lan, "", 0, target4, "isp0")
}

// Where only the other uplink has IPv6 its clients are told at once.
func TestActiveWithoutIPv6(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	nstest.Shell(t, l.edge, "ip -6 route del default dev wan1")
	l.reach(t, "b")
	if _, err := ask(l.lan, "tcp", "", 0, target6); !unreachableErr(err) {
		t.Errorf("IPv6 of the LAN: %v, want unreachable", err)
	}
	if _, err := ask(l.edge, "tcp", "", 0, target6); !unreachableErr(err) {
		t.Errorf("IPv6 of the edge: %v, want unreachable", err)
	}
	answers(t, l.edge, "fd10::2", 0x100, target6, "isp0")
	if steps := l.reach(t, "a"); len(steps) != 2 {
		t.Errorf("a switch takes %d steps, want one a family: %v", len(steps), steps)
	}
	answers(t, l.lan, "", 0, target6, "isp0")
	nstest.Shell(t, l.edge, "ip -6 route del default dev wan0")
	l.reach(t, "a")
	if k := l.observe(t); len(at(k, routeKey{8710, defaultOf(true), 1024})) != 0 {
		t.Error("nobody has IPv6, and still we have a default for it")
	}
}

// Whichever step is the last one done, from nothing to the layout, through a
// switch, and back to nothing: traffic flows.
func TestEveryStep(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	masquerade(t, l)
	flows := func(what string, p Plan, n int) {
		t.Helper()
		for _, ns := range []string{l.lan, l.edge} {
			for _, to := range []string{target4, target6} {
				if _, err := ask(ns, "udp", "", 0, to); err != nil {
					t.Errorf("%s, after %d steps: %s from %s: %v\n%v", what, n, to, ns, err, Plan{Steps: p.Steps[:n]})
				}
			}
		}
		for _, addr := range []string{"10.10.0.2", "10.20.0.2"} {
			if _, err := ask(l.lan, "udp", "", 0, addr+":7000"); err != nil {
				t.Errorf("%s, after %d steps: the LAN does not reach %s: %v", what, n, addr, err)
			}
		}
	}
	walk := func(what string, plan func() Plan) {
		t.Helper()
		p := plan()
		if len(p.Steps) == 0 {
			t.Fatalf("%s: nothing to do", what)
		}
		for n := range p.Steps {
			l.do(t, Plan{Steps: p.Steps[n : n+1]})
			flows(what, p, n+1)
			if rest := plan(); len(rest.Steps) != len(p.Steps)-n-1 {
				t.Errorf("%s: after %d of %d steps the plan has %d", what, n+1, len(p.Steps), len(rest.Steps))
			}
		}
	}
	to := func(active string) func() Plan {
		return func() Plan { k := l.observe(t); return l.layout(k, active).Plan(k) }
	}
	walk("start", to("b"))
	walk("switch", to("a"))
	nstest.Shell(t, l.edge, `ip addr del 10.10.0.2/24 dev wan0; ip addr add 10.10.0.3/24 dev wan0; ip addr add 10.10.0.2/32 dev wan0
		ip route add default via 10.10.0.1 dev wan0 proto dhcp metric 100`)
	walk("another address", to("a"))
	walk("removal", func() Plan { return Default().Removal(l.observe(t)) })
}

// Somebody flushes what is ours, or the kernel does: Events tells, and a plan mends.
func TestMend(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	masquerade(t, l)
	l.reach(t, "a")
	for _, harm := range []string{
		"ip route flush table 8711",
		"ip route flush table 8710; ip -6 route flush table 8710",
		"ip rule flush protocol 219; ip -6 rule flush protocol 219",
		"ip link set wan0 down; ip link set wan0 up; ip route add default via 10.10.0.1 dev wan0 proto dhcp metric 100; ip addr add fd10::2/64 dev wan0 nodad; ip -6 route add default via fd10::1 dev wan0 proto ra metric 1024",
		"ip addr flush dev wan0; ip addr add 10.10.0.7/24 dev wan0; ip addr add fd10::7/64 dev wan0 nodad; ip route add default via 10.10.0.1 dev wan0 proto dhcp metric 100; ip -6 route replace default via fd10::1 dev wan0 proto ra metric 1024",
		"ip route add default via 10.10.0.1 dev wan0 table 8710 proto 219 metric 7; ip rule add pref 21003 from 10.99.0.1 lookup 8711 protocol 219",
		"ip route append default via 10.20.0.1 dev wan1 table 8710 proto 219; ip -6 route append default via fd20::1 dev wan1 table 8710 proto 219",
	} {
		ctx, cancel := context.WithCancel(context.Background())
		events := nstest.Inside(t, l.edge, func() (<-chan struct{}, error) { return Events(ctx) })
		nstest.Shell(t, l.edge, harm)
		select {
		case <-events:
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: nothing is told", harm)
		}
		cancel()
		for range events { // until it is closed
		}
		if steps := l.reach(t, "a"); len(steps) == 0 {
			t.Errorf("%s: nothing to mend", harm)
		}
		answers(t, l.lan, "", 0, target4, "isp0")
		answers(t, l.lan, "", 0, target6, "isp0")
	}
}

// The commands that a plan prints do what the plan does.
func TestCommands(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	nstest.Shell(t, l.edge, "ip -6 route del default dev wan1")
	run := func(p Plan) {
		t.Helper()
		for _, s := range p.Steps {
			nstest.Shell(t, l.edge, s.Command())
		}
	}
	var dumps [2][3]string
	for i, do := range []func(Plan){func(p Plan) { l.do(t, p) }, run} {
		for j, active := range []string{"a", "b"} {
			k := l.observe(t)
			do(l.layout(k, active).Plan(k))
			dumps[i][j] = l.dump(t)
		}
		do(Default().Removal(l.observe(t)))
		dumps[i][2] = l.dump(t)
	}
	if dumps[0] != dumps[1] {
		t.Errorf("steps:\n%s\ncommands:\n%s", dumps[0], dumps[1])
	}
}

// Only what is ours is removed, whatever it looks like.
func TestRemove(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	nstest.Shell(t, l.edge, `ip rule add pref 21010 lookup 8710; ip rule add pref 21003 from 10.10.0.2 lookup 8711 protocol 218
		ip route add default via 10.10.0.1 table 8710 proto static metric 9; ip -6 route add unreachable default table 8710 metric 9 proto 218
		ip route add 10.77.0.0/16 via 10.1.0.2 table 300 proto 219; ip rule add pref 100 to 10.77.0.0/16 lookup 300 protocol 219
		ip -6 rule add pref 5 lookup main protocol 219; ip route add 192.0.2.0/24 via 10.1.0.2 proto 219`)
	before := l.dump(t)
	nstest.Shell(t, l.edge, `ip rule add pref 21010 lookup 8710 protocol 219; ip rule add pref 21003 from 10.10.0.2 lookup 8711 protocol 219
		ip rule add pref 21010 iif lan0 to 192.0.2.0/24 lookup 8710 protocol 219; ip -6 rule add pref 21005 lookup main protocol 219
		ip route append default via 10.10.0.1 table 8710 proto 219 metric 9; ip -6 route add unreachable default table 8710 metric 10 proto 219
		ip route add default table 8715 proto 219 nexthop via 10.10.0.1 nexthop via 10.20.0.1
		ip -6 route add default table 8715 proto 219 nexthop via fd10::1 nexthop via fd20::1
		ip route add default via 10.1.0.2 proto 219 metric 5; ip route add blackhole 198.51.100.0/24 table 8717 proto 219 metric 4000000000`)
	l.remove(t)
	if after := l.dump(t); after != before {
		t.Errorf("left:\n%s\nthere was:\n%s", after, before)
	}
}

func at(k Kernel, place routeKey) (all []Route) {
	for _, r := range k.Routes {
		if r.key() == place {
			all = append(all, r)
		}
	}
	return all
}

func unreachableErr(err error) bool { return isErrno(err, unix.EHOSTUNREACH, unix.ENETUNREACH) }

func isErrno(err error, any ...error) bool {
	for _, e := range any {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

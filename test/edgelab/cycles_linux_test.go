package edgelab

import (
	"cmp"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

var seed = flag.Uint64("edgelab.seed", 0, "what chance is drawn from; 0: the clock")

// seeded is the chance of one part of a test, whose seed is told.
func seeded(t *testing.T, part string) *rand.Rand {
	t.Helper()
	s := cmp.Or(*seed, uint64(time.Now().UnixNano()))
	t.Logf("-edgelab.seed=%d", s)
	h := fnv.New64a()
	_, _ = h.Write([]byte(part))
	return rand.New(rand.NewPCG(h.Sum64(), s))
}

var cycles = flag.Int("edgelab.cycles", 11, "how often an uplink fails and comes back")

// drop has a provider forget packets that match.
func drop(what string) string {
	return fmt.Sprintf(`printf 'table inet x {\n chain in {\n  type filter hook prerouting priority -300; policy accept;\n  iifname "up*" %s drop\n }\n}\n' | nft -f -`, what)
}

const forgive = "nft delete table inet x"

// fault is a way in which the first uplink fails, and how that ends. Its scripts
// name namespaces by P-NAME.
type fault struct {
	name     string
	down, up string
	home     string // what makes all as it was, where up does not: nobody is to notice
	gone     bool   // the kernel says so: it is seen in seconds
	fine     bool   // it is no reason to leave
	moves    string // the address that it has then
	via      string // the gateway that it has then
}

// dropped is a fault of which the first provider is guilty.
func dropped(name, what string) fault {
	at := "ip netns exec P-isp0 "
	return fault{name: name, down: strings.Replace(drop(what), "| nft", "| "+at+"nft", 1), up: at + forgive}
}

const (
	lease    = "; ip -n P-edge route replace default via 10.0.0.1 dev wan0 metric 100 proto dhcp"
	newLease = "; ip -n P-edge route replace default via 10.7.0.1 dev wan0 metric 100 proto dhcp"
)

var faults = []fault{
	dropped("forward drop", ""),
	{name: "the other end down", down: "ip -n P-isp0 link set up0 down", up: "ip -n P-isp0 link set up0 up", gone: true},
	{
		name: "address changed", gone: true, moves: "10.7.0.2", via: "10.7.0.1",
		down: "ip -n P-edge addr del 10.0.0.2/24 dev wan0",
		up:   "ip -n P-isp0 addr add 10.7.0.1/24 dev up0; ip -n P-edge addr add 10.7.0.2/24 dev wan0" + newLease,
		home: "ip -n P-edge addr add 10.0.0.2/24 dev wan0" + lease + "; ip -n P-edge addr del 10.7.0.2/24 dev wan0; ip -n P-isp0 addr del 10.7.0.1/24 dev up0",
	},
	{name: "carrier", down: "ip -n P-edge link set wan0 down", up: "ip -n P-edge link set wan0 up" + lease, gone: true},
	{name: "address lost", down: "ip -n P-edge addr del 10.0.0.2/24 dev wan0", up: "ip -n P-edge addr add 10.0.0.2/24 dev wan0" + lease, gone: true},
	{name: "gateway lost", down: "ip -n P-edge route del default dev wan0", up: lease[2:], gone: true},
	{
		name: "gateway changed", via: "10.0.0.254", // another box, and nobody has told yet
		down: "ip -n P-isp0 link set up0 address 02:00:00:00:00:fe; ip -n P-isp0 addr del 10.0.0.1/24 dev up0; ip -n P-isp0 addr add 10.0.0.254/24 dev up0",
		up:   "ip -n P-edge route replace default via 10.0.0.254 dev wan0 metric 100 proto dhcp",
		home: "ip -n P-isp0 link set up0 address 02:00:00:00:00:01; ip -n P-isp0 addr del 10.0.0.254/24 dev up0; ip -n P-isp0 addr add 10.0.0.1/24 dev up0; ip -n P-edge neigh flush dev wan0" + lease,
	},
	dropped("tcp dead", "meta l4proto tcp"),
	dropped("names dead", "udp dport 53"),
	dropped("ping dead", "meta l4proto icmp"),
	{name: "one target dead", down: dropped("", "ip daddr 8.8.8.8").down, up: dropped("", "").up, fine: true},
}

// withNames asks for names, too.
func withNames(config string) string {
	return strings.Replace(config, "targets: [", "targets: [{dns: 9.9.9.9, name: example.org}, {dns: 8.8.8.8, name: example.org}, ", 1)
}

// An uplink that fails is left, and gone back to when it is well again and the other
// one has been used for long enough, whatever the way it failed; a target that is
// gone is no failure. What a host in the LAN has open goes on or is made anew.
// Nobody else's routes are touched.
func TestCycles(t *testing.T) {
	t.Parallel()
	parts := []string{masquerade, static, masquerade}
	for part, nat := range parts {
		t.Run(fmt.Sprint(part), func(t *testing.T) {
			t.Parallel()
			c := newCycle(t, nat)
			can := slices.DeleteFunc(slices.Clone(faults), func(f fault) bool {
				return nat == static && f.moves != "" // what is written down cannot change
			})
			rng := seeded(t, fmt.Sprint(part))
			for n := part; n < *cycles; n += len(parts) {
				f := can[rng.IntN(len(can))]
				if n < len(faults) { // each of them once, then any
					f = faults[n]
				}
				c.run(f)
			}
			c.end()
		})
	}
}

// cycle is an edge node whose first uplink fails and comes back.
type cycle struct {
	*bench
	others   string
	udp, tcp *flow
}

func newCycle(t *testing.T, nat string) *cycle {
	b := newBench(t, withNames(quick), nat)
	b.addressed()
	c := &cycle{bench: b, others: b.others()}
	b.begin()
	c.udp, c.tcp = b.flow("udp4"), b.flow("tcp4")
	return c
}

// addressed waits for addresses of IPv6 that are being tried.
func (b *bench) addressed() {
	b.t.Helper()
	b.soon("addresses of IPv6", 10*time.Second, func() bool { return !strings.Contains(b.in("edge", "ip addr"), "tentative") })
}

func (c *cycle) run(f fault) {
	c.t.Helper()
	there, back := c.switches("lte"), c.switches("leo")
	start := time.Now()
	c.script(f.down)
	if f.fine {
		time.Sleep(3 * time.Second)
		c.script(f.up)
		if c.switches("lte") != there || c.active() != "leo" {
			c.t.Fatalf("%s: left\n%s", f.name, c.said)
		}
		return
	}
	took := c.soon(f.name, 14*time.Second, func() bool { return c.switches("lte") > there && c.active() == "lte" })
	left := c.since("lte")
	udp, tcp := c.recovers(f.name+": udp", c.udp, 2*time.Second), c.recovers(f.name+": tcp", c.tcp, took+2*time.Second)
	c.script(f.up)
	c.soon("back after "+f.name, 60*time.Second, func() bool { return c.switches("leo") > back && c.active() == "leo" })
	stayed := c.since("leo") - left
	if stayed < 3*time.Second {
		c.t.Errorf("%s: it went back after %v", f.name, stayed)
	}
	udpBack, tcpBack := c.recovers(f.name+": udp, back", c.udp, 2*time.Second), c.recovers(f.name+": tcp, back", c.tcp, 2*time.Second)
	c.moved(f)
	c.t.Logf("%s: left after %v (udp %v, tcp %v), back after %v (udp %v, tcp %v), all %v", f.name,
		took.Round(time.Millisecond), udp.Round(time.Millisecond), tcp.Round(time.Millisecond),
		stayed.Round(time.Millisecond), udpBack.Round(time.Millisecond), tcpBack.Round(time.Millisecond), time.Since(start).Round(time.Millisecond))
}

// moved looks for the new address and gateway of an uplink in all that is ours, and
// for the old ones when all is as it was.
func (c *cycle) moved(f fault) {
	c.t.Helper()
	stands := func(source, gateway, not string) func() bool {
		return func() bool {
			ours := c.in("edge", "ip rule | grep 'proto 219'; ip route show table 8710; ip route show table 8711")
			return strings.Contains(ours, "from "+source+" ") && strings.Count(ours, "default via "+gateway+" dev wan0") == 2 &&
				strings.Contains(ours, "src "+source) && !strings.Contains(ours, not)
		}
	}
	if f.via == "" {
		return
	}
	source, not := "10.0.0.2", "10.0.0.1 "
	if f.moves != "" {
		source, not = f.moves, "10.0.0."
	}
	c.soon(f.name+": all that is ours", 10*time.Second, stands(source, f.via, not))
	there := c.switches("lte")
	c.script(f.home)
	c.soon(f.name+": all that is ours, back", 10*time.Second, stands("10.0.0.2", "10.0.0.1", f.via))
	c.recovers(f.name+": udp, home", c.udp, 2*time.Second)
	c.recovers(f.name+": tcp, home", c.tcp, 2*time.Second)
	if c.switches("lte") != there {
		c.t.Errorf("%s: left for an address that changed back\n%s", f.name, c.said)
	}
}

// end has failover gone, and looks at what is left.
func (c *cycle) end() {
	t := c.t
	c.stop(syscall.SIGTERM)
	if got := c.active(); got != "leo" {
		t.Errorf("%s is active without failover", got)
	}
	c.in("edge", c.program+" failover remove --config "+c.config+" --state-dir "+c.dir+"/state")
	c.addressed()
	if got := c.bench.others(); got != c.others {
		t.Errorf("others' routes were\n%s\nand are\n%s", c.others, got)
	}
	if ours := c.in("edge", "ip rule | grep 'proto 219' || true; ip route show table all | grep 'proto 219' || true"); ours != "" {
		t.Errorf("left: %s", ours)
	}
}

// What somebody else takes away is put back within ten seconds.
func TestReconciles(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick, masquerade)
	b.start()
	b.soon("the first choice", 30*time.Second, func() bool { return strings.Contains(b.said.String(), "switch: leo") && b.active() == "leo" })
	time.Sleep(time.Second)
	stands := func() string {
		return b.in("edge", "{ ip rule; ip route show table all; } | grep 'proto 219' || true")
	}
	before := stands()
	for _, harm := range []string{"ip route flush table 8710", "ip route flush table 8711", "ip rule flush protocol 219", "ip rule del pref 21010", "ip link set wan1 down; ip link set wan1 up; ip route replace default via 10.0.1.1 dev wan1 metric 101 proto dhcp"} {
		b.in("edge", harm)
		took := b.soon("after "+harm, 12*time.Second, func() bool { return stands() == before })
		t.Logf("%s: %v", harm, took)
	}
	// Killed, it leaves a machine that works, and goes on as it was.
	b.stop(syscall.SIGKILL)
	b.reach()
	b.start()
	b.soon("its state", 10*time.Second, func() bool { return b.status().Active == "leo" })
	if n := strings.Count(b.said.String(), "switch:"); n > 0 {
		t.Errorf("it switched as it started again\n%s", b.said)
	}
}

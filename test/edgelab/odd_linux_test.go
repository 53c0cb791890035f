package edgelab

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Links that are not one subnet with one gateway by DHCP carry all the same.
func TestOddLinksCarry(t *testing.T) {
	t.Parallel()
	const bare = "ip addr flush dev wan1; ip addr add 100.64.1.5/32 dev wan1; "
	configured := strings.NewReplacer("interface: wan0", "interface: wan0, gateway: 10.0.0.1", "interface: wan1", "interface: wan1, gateway: 10.0.1.1").Replace(quick)
	for name, c := range map[string]struct{ config, edge, isp string }{
		"onlink":    {quick, bare + "ip route add default via 10.0.1.1 dev wan1 onlink metric 101 proto dhcp", "ip route add 100.64.1.5 dev up1"},
		"no prefix": {quick, bare + "ip route add 10.0.1.1 dev wan1 proto dhcp; ip route add default via 10.0.1.1 dev wan1 metric 101 proto dhcp", "ip route add 100.64.1.5 dev up1"},
		// Nobody is looked for on such a link: both ends have one address, as a cable's.
		"no gateway": {quick, "ip addr flush dev wan1; ip link set wan1 arp off address 02:00:00:00:00:07; ip addr add 100.64.1.5 peer 100.64.1.1 dev wan1; ip route add default dev wan1 metric 101",
			"ip link set up1 arp off address 02:00:00:00:00:07; ip addr add 100.64.1.1 peer 100.64.1.5 dev up1"},
		"the same metric twice": {quick, "ip route del default dev wan1; ip route append default via 10.0.1.1 dev wan1 metric 100 proto dhcp", "true"},
		"several defaults":      {quick, "ip route add default via 10.0.1.1 dev wan1; ip route append default via 10.0.1.77 dev wan1 metric 300", "true"},
		"no default at all":     {configured, "ip route del default; ip route del default", "true"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, c.config, masquerade)
			b.in("edge", c.edge)
			b.in("isp1", c.isp)
			others := b.settled()
			b.chosen()
			b.loses(true)
			b.soon("the odd one", 20*time.Second, func() bool { return b.active() == "lte" })
			b.reach()
			b.loses(false)
			b.cleanly(others)
		})
	}
}

// What cannot carry is named, and the other uplink carries alone.
func TestOddLinksAreNamed(t *testing.T) {
	t.Parallel()
	far := strings.Replace(quick, "interface: wan0", "interface: wan0, gateway: 10.77.0.1", 1)
	for name, c := range map[string]struct{ config, edge, want string }{
		"gateway off the link":        {far, "ip route del default dev wan0", "gateway 10.77.0.1 of leo is not in what wan0 is connected to"},
		"no gateway where one has to": {quick, "ip route del default dev wan0; ip route add default dev wan0 metric 100", "no gateway in its default, though the link is not point to point"},
		"neighbours of one subnet":    {quick, "ip addr flush dev wan0; ip addr add 10.0.1.9/24 dev wan0; ip route add default via 10.0.1.1 dev wan0 metric 100", "are connected to the same addresses"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, c.config, masquerade)
			b.in("edge", c.edge)
			others := b.settled()
			b.start()
			b.soon("status names it", 25*time.Second, func() bool {
				return strings.Contains(b.in("edge", fmt.Sprintf("%s failover status --config %s --state-dir %s/state || true", b.program, b.config, b.dir)), c.want)
			})
			if !strings.Contains(c.want, "same addresses") { // of which main reaches one: nothing is done there
				b.soon("the other one", 10*time.Second, func() bool { return b.active() == "lte" })
				b.reach()
			}
			time.Sleep(11 * time.Second)                             // in which the routes are looked at again
			if n := strings.Count(b.said.String(), c.want); n != 2 { // as it starts, and as what follows
				t.Errorf("named %d times\n%s", n, b.said)
			}
			b.cleanly(others)
		})
	}
}

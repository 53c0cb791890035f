package edgelab

import (
	"flag"
	"slices"
	"strings"
	"testing"
	"time"
)

var detections = flag.Int("edgelab.detections", 1, "how often each kind of failure is timed with the preset as it is")

// leo is the preset, but for how soon it goes back.
var leo = withNames(`failover:
  uplinks:
    - {name: leo, role: primary, interface: wan0}
    - {name: lte, role: backup, interface: wan1, metered: true}
  targets: [{icmp: 9.9.9.9}, {icmp: 8.8.8.8}, {tcp: "9.9.9.9:443"}, {tcp: "8.8.8.8:443"}]
  up: 3
  up_for: 3s
  dwell: 5s
  dwell_max: 5s
`)

// However an uplink fails, it is left within 14 seconds, and within 4 where the
// kernel knows.
func TestDetection(t *testing.T) {
	t.Parallel()
	for _, f := range faults {
		if f.fine {
			continue
		}
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			b := begun(t, leo, masquerade)
			within := 14 * time.Second
			if f.gone {
				within = 4 * time.Second
			}
			rng := seeded(t, f.name)
			var all []time.Duration
			for range *detections {
				// Looks come each second, some only each other one.
				time.Sleep(time.Duration(rng.Int64N(int64(2 * time.Second))))
				there, back := b.switches("lte"), b.switches("leo")
				start := time.Now()
				b.script(f.down)
				b.soon(f.name, within, func() bool { return b.switches("lte") > there && b.active() == "lte" })
				all = append(all, b.turned().Sub(start))
				b.script(f.up)
				if len(all) == *detections {
					break
				}
				b.soon("back", 60*time.Second, func() bool { return b.switches("leo") > back && b.active() == "leo" })
				if f.home != "" {
					b.script(f.home)
					time.Sleep(3 * time.Second)
				}
			}
			var sum time.Duration
			for _, d := range all {
				sum += d
			}
			t.Logf("left after %v, %v, %v (least, mean, most of %d)", slices.Min(all).Round(10*time.Millisecond),
				(sum / time.Duration(len(all))).Round(10*time.Millisecond), slices.Max(all).Round(10*time.Millisecond), len(all))
		})
	}
}

// Going back waits for the dwell, and twice as long after a second failover.
func TestDwell(t *testing.T) {
	t.Parallel()
	b := begun(t, strings.Replace(quick, "dwell_max: 3s", "dwell_max: 30s", 1), masquerade)
	for _, dwell := range []time.Duration{3 * time.Second, 6 * time.Second} {
		b.fail()
		left := b.since("lte")
		b.mend()
		if stayed := b.since("leo") - left; stayed < dwell {
			t.Errorf("it went back after %v, want %v at least\n%s", stayed, dwell, b.said)
		}
	}
}

// neighbourly has the first provider answer ARP for everybody, and answer as the
// targets, too: only what was sent to it as to a neighbour shows it.
const neighbourly = `echo 1 > /proc/sys/net/ipv4/conf/up0/proxy_arp`

// A neighbour that answers ARP for others, and even to what it is asked, is no way
// out: an uplink without a gateway, or with a default that names none, is down, and
// nothing is sent to it.
func TestNeighbourIsNoGateway(t *testing.T) {
	t.Parallel()
	for name, nat := range map[string]string{"masquerade": masquerade, "static": static} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := begun(t, withNames(quick), nat)
			b.in("isp0", neighbourly)
			for _, lost := range []string{"ip route del default dev wan0", "ip route add default dev wan0 metric 100 proto dhcp"} {
				b.in("edge", lost)
				b.soon("failover", 5*time.Second, func() bool { return b.active() == "lte" && b.verdict("leo") == "down" })
				b.in("isp0", `nft 'table inet seen { chain in { type filter hook prerouting priority -300; iifname "up0" ip daddr { 9.9.9.9, 8.8.8.8 } counter; }; }'`)
				time.Sleep(4 * time.Second) // long enough to be up
				if got := b.verdict("leo"); got != "down" {
					t.Errorf("%s: leo is %s", lost, got)
				}
				if seen := b.in("isp0", "nft list table inet seen; nft delete table inet seen"); !strings.Contains(seen, "packets 0 ") {
					t.Errorf("%s: asked as a neighbour: %s", lost, seen)
				}
				if near := b.in("edge", "ip neigh show dev wan0"); strings.Contains(near, "9.9.9.9") || strings.Contains(near, "8.8.8.8") {
					t.Errorf("%s: a neighbour: %s", lost, near)
				}
			}
			b.reach()
		})
	}
}

// What is asked by an uplink that is dead is not answered by the other one, whatever
// becomes of the tables and rules that lead there.
func TestDeadStaysDead(t *testing.T) {
	t.Parallel()
	for name, nat := range map[string]string{"masquerade": masquerade, "static": static} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := begun(t, quick, nat)
			b.in("isp0", neighbourly)
			b.fail()
			for end := time.Now().Add(6 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
				b.in("edge", "ip route flush table 8711; ip rule del pref 20998 2>/dev/null || true")
			}
			time.Sleep(time.Second)
			if got := b.verdict("leo"); got != "down" || b.switches("leo") != 1 {
				t.Errorf("leo is %s\n%s", got, b.said)
			}
			b.mend()
		})
	}
}

func (b *bench) verdict(uplink string) string {
	b.t.Helper()
	for _, u := range b.status().Uplinks {
		if u.Name == uplink {
			return u.Verdict
		}
	}
	return ""
}

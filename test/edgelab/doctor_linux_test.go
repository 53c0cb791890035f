package edgelab

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// seen is what doctor says of one thing.
type seen struct{ Result, What, Message, Do string }

// doctor has all looked at on the edge node, with a configuration.
func (b *bench) doctor(config string) (all []seen) {
	b.t.Helper()
	cmd := exec.Command("ip", "netns", "exec", b.prefix+"edge", b.program, "doctor", "--edge", "--json", "--config", config, "--state-dir", b.t.TempDir())
	out, _ := cmd.Output() // what failed is in it
	for line := range bytes.Lines(out) {
		var s seen
		fatal(b.t, json.Unmarshal(line, &s))
		all = append(all, s)
	}
	return all
}

// find returns what doctor says with a result of something, in which there is text.
func find(all []seen, result, what, text string) (seen, bool) {
	for _, s := range all {
		if s.Result == result && s.What == what && strings.Contains(s.Message, text) {
			return s, true
		}
	}
	return seen{}, false
}

func (b *bench) finds(all []seen, result, what, text string) seen {
	b.t.Helper()
	s, ok := find(all, result, what, text)
	if !ok {
		var said []string
		for _, s := range all {
			said = append(said, s.Result+" "+s.What+": "+s.Message)
		}
		b.t.Errorf("not found: %s %s: %s\n%s", result, what, text, strings.Join(said, "\n"))
	}
	return s
}

// What is to be asked is asked by each uplink, once the tables stand.
func TestDoctorAsksTargets(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick, masquerade)
	before := b.doctor(b.config)
	b.finds(before, "ok", "uplink leo", "wan0: 10.0.0.2 by 10.0.0.1")
	b.finds(before, "ok", "rp_filter", "strict on wan0, wan1: passes")
	b.finds(before, "ok", "marks", "nobody else is seen")
	b.finds(before, "ok", "connections", "can be cut")
	b.finds(before, "warning", "targets", "the tables of failover do not stand")
	if rules := b.in("edge", "ip rule | grep 'proto 219' || true"); rules != "" {
		t.Errorf("doctor set up %s", rules)
	}
	b.start()
	b.soon("the first choice", 30*time.Second, func() bool { return strings.Contains(b.said.String(), "switch: leo") })
	b.soon("both answer", 10*time.Second, func() bool {
		all := b.doctor(b.config)
		_, leo := find(all, "ok", "answers by leo", "enough")
		_, lte := find(all, "ok", "answers by lte", "enough")
		return leo && lte
	})
	b.in("isp0", drop("meta l4proto tcp"))
	b.in("isp1", drop("ip daddr 8.8.8.8 meta l4proto icmp"))
	after := b.doctor(b.config)
	b.finds(after, "warning", "target", "tcp 9.9.9.9:443: leo no answer within 1s; lte ")
	b.finds(after, "warning", "target", "icmp 8.8.8.8: leo ")
	b.finds(after, "warning", "answers by leo", "no target of tcp or http answers")
	b.finds(after, "ok", "answers by lte", "enough")
	b.in("isp0", forgive+"; "+drop("ip daddr 8.8.8.8"))
	b.finds(b.doctor(b.config), "warning", "target", "icmp 8.8.8.8: leo no answer within 1s; lte no answer within 1s")
	b.stop(syscall.SIGTERM)
}

// What it says to do about something can be pasted, and then it is mended.
func TestDoctorMends(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick, masquerade)
	simple := filepath.Join(b.dir, "simple.yaml")
	fatal(t, os.WriteFile(simple, []byte(strings.Replace(quick, "  quorum: 2\n", "  quorum: 2\n  simple: true\n", 1)), 0o600))
	type harm struct{ script, result, what, text string }
	for config, harms := range map[string][]harm{
		b.config: {
			{"ip rule add pref 21005 from 192.0.2.0/24 lookup 99", "failed", "routes", "rule of somebody else's among ours"},
			{"ip rule add pref 90 lookup main", "failed", "routes", "gives every packet to main"},
			{"ip route add 192.0.2.0/24 dev lan0 table 8711", "failed", "routes", "table 8711 holds a route of somebody else's"},
			{"ip rule add pref 7 lookup 99 protocol 219", "failed", "routes", "protocol 219 is in use elsewhere: pref"},
			{"ip route add 192.0.2.0/24 dev lan0 table 99 proto 219", "failed", "routes", "protocol 219 is in use elsewhere: 192"},
			{"ip link set wan1 down", "warning", "uplink lte", "wan1: interface is down"},
			{"ip route del default dev wan0; ip route add default via 10.0.0.1 dev wan0", "warning", "metric", "the default by wan0 has metric 0"},
		},
		simple: {
			{"ip route del default dev wan1 || true; ip route add default via 10.0.1.1 dev wan1 metric 4", "failed", "metric", "the default by wan1 has metric 4"},
		},
	} {
		for _, h := range harms {
			b.in("edge", h.script)
		}
		before := b.doctor(config)
		for _, h := range harms {
			said := b.finds(before, h.result, h.what, h.text)
			_, do, more := strings.Cut(said.Do, ": ") // before the command it may say why
			if !more {
				do = said.Do
			}
			b.in("edge", do)
		}
		after := b.doctor(config)
		for _, h := range harms {
			if s, still := find(after, h.result, h.what, h.text); still {
				t.Errorf("it still finds %v", s)
			}
		}
	}
}

// A tunnel set up as wg-quick does takes all but its own packets, and so our probes:
// what is said of it lets it have all else.
func TestDoctorFreesProbes(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick, masquerade)
	b.chosen()
	b.in("edge", `ip tuntap add wgx mode tun; ip link set wgx up; ip addr add 10.99.0.2/32 dev wgx; ip route add default dev wgx table 51820
		ip rule add not fwmark 51820 table 51820; ip rule add table main suppress_prefixlength 0`)
	b.soon("no probe is answered", 20*time.Second, func() bool { return b.verdict("leo") == "down" && b.verdict("lte") == "down" })
	_, do, _ := strings.Cut(b.finds(b.doctor(b.config), "warning", "routes", "rule before ours takes the probes of leo, lte: pref 20997 not fwmark 0xca6c").Do, "PostUp = ")
	b.in("edge", do)
	b.soon("they are answered", 20*time.Second, func() bool { return b.verdict("leo") == "up" && b.verdict("lte") == "up" })
	for mark, dev := range map[string]string{"": "dev wgx", "mark 51820": "dev wan"} {
		if way := b.in("edge", "ip route get 203.0.113.9 "+mark); !strings.Contains(way, dev) {
			t.Errorf("with %q: %s", mark, way)
		}
	}
}

// What a packet filter and a tunnel do to marks is seen, and the mask that it gives
// instead is one that nobody minds.
func TestDoctorFindsMarks(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick, masquerade)
	b.in("edge", `nft -f - <<'E'
table ip mangle {
	chain pre { type filter hook prerouting priority mangle; iifname "lan0" meta mark set 0x100; }
	chain out { type route hook output priority mangle; meta mark set meta mark & 0xff; }
}
E`)
	b.in("edge", "ip rule add pref 1000 fwmark 0x3000/0x3c00 lookup 99")
	all := b.doctor(b.config)
	b.finds(all, "warning", "marks", "table ip mangle, chain out takes bits 0x300")
	said := b.finds(all, "warning", "marks", "table ip mangle, chain pre marks packets with bits 0x100, of which 0x100 are failover's: such packets leave by leo alone")
	b.in("edge", "nft delete chain ip mangle out")
	_, mask, _ := strings.Cut(said.Do, "mask: ")
	other := filepath.Join(b.dir, "mask.yaml")
	fatal(t, os.WriteFile(other, []byte(quick+"  mask: "+mask+"\n"), 0o600))
	b.finds(b.doctor(other), "ok", "marks", "nobody else is seen to use bits "+mask)
}

// The filter of reverse paths in simple mode: what it says to write is what helps.
func TestDoctorLoosensTheFilter(t *testing.T) {
	t.Parallel()
	b := newBench(t, strings.Replace(quick, "  quorum: 2\n", "  quorum: 2\n  simple: true\n", 1), masquerade)
	said := b.finds(b.doctor(b.config), "warning", "rp_filter", "strict on wan0, wan1")
	b.in("edge", "mount -t tmpfs none /etc/sysctl.d; "+said.Do) // in a mount namespace of its own
	b.finds(b.doctor(b.config), "ok", "rp_filter", "not strict")
}
